package snapshotfile

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
)

// The checks repeat those that an object passes on its way into the index (internal/index/convert.go): a file that somebody
// else wrote must not get into an answer what no API object could.

var errNoKind = errors.New("not one object, group or list of endpoints")

// check returns an error unless exactly one field is set, and right.
func (it *item) check() error {
	set := 0
	var err error
	for _, part := range []struct {
		present bool
		check   func() error
	}{
		{it.Header != nil, func() error { return it.Header.check() }},
		{it.Import != nil, func() error { return it.Import.check() }},
		{it.Slice != nil, func() error { return it.Slice.check() }},
		{it.Global != nil, func() error { return it.Global.check() }},
		{it.Cluster != nil, func() error { return it.Cluster.check() }},
		{it.Group != nil, func() error { return it.Group.check() }},
		{it.Endpoints != nil, func() error { return checkEndpoints(it.Endpoints) }},
		{it.End != nil, func() error { return nil }},
	} {
		if part.present {
			set++
			err = part.check()
		}
	}
	if set != 1 {
		return errNoKind
	}
	return err
}

func (h *header) check() error {
	for _, ns := range h.Namespaces {
		if err := api.CheckLabel(ns); err != nil {
			return fmt.Errorf("namespace %q %w", ns, err)
		}
	}
	return nil
}

func (o *serviceImport) check() error {
	if o.Headless && len(o.IPs) > 0 {
		return fmt.Errorf("a headless service with %d ClusterSetIPs", len(o.IPs))
	}
	for _, ip := range o.IPs {
		if err := checkAddr(ip); err != nil {
			return err
		}
	}
	return errors.Join(checkKey(o.Service), checkPorts(o.Ports))
}

func (o *endpointSlice) check() error {
	if o.Name == "" || len(o.Name) > 253 || o.Namespace != o.Service.Namespace() {
		return fmt.Errorf("EndpointSlice %q in namespace %q of service %q", o.Name, o.Namespace, o.Service)
	}
	return checkKey(o.Service)
}

func (o *globalService) check() error { return errors.Join(checkKey(o.Service), checkPorts(o.Ports)) }

func (o *cluster) check() error {
	if o.Health > index.Gone {
		return fmt.Errorf("health %d", o.Health)
	}
	return checkCluster(o.Name)
}

func (g *group) check() error {
	if g.Cluster != "" {
		if err := checkCluster(g.Cluster); err != nil {
			return err
		}
	}
	return checkPorts(g.Ports)
}

func checkEndpoints(endpoints []endpoint) error {
	if len(endpoints) > chunk {
		return fmt.Errorf("%d endpoints in one item", len(endpoints))
	}
	for i := range endpoints {
		e := &endpoints[i]
		if err := checkAddr(e.Addr); err != nil {
			return err
		}
		if e.Hostname != "" {
			if err := api.CheckLabel(e.Hostname); err != nil {
				return fmt.Errorf("hostname %q %w", e.Hostname, err)
			}
		}
	}
	return nil
}

func checkPorts(ports []port) error {
	for i := range ports {
		p := &ports[i]
		if p.Number == 0 || p.Protocol > index.SCTP {
			return fmt.Errorf("port %d of protocol %d", p.Number, p.Protocol)
		}
		if p.Name != "" {
			if err := api.CheckLabel(p.Name); err != nil {
				return fmt.Errorf("port name %q %w", p.Name, err)
			}
		}
	}
	return nil
}

func checkKey(key index.ServiceKey) error {
	if key != index.NewServiceKey(key.Namespace(), key.Name()) || api.CheckLabel(key.Name()) != nil || api.CheckLabel(key.Namespace()) != nil {
		return fmt.Errorf("service %q is not <name>.<namespace>, two DNS labels", key)
	}
	return nil
}

func checkCluster(name string) error {
	if err := api.CheckClusterName(name); err != nil {
		return fmt.Errorf("cluster %q %w", name, err)
	}
	return nil
}

// checkAddr goes by the text, which is what the API's rules are about.
func checkAddr(addr netip.Addr) error {
	if checked, err := api.ParseAddress(addr.String()); err != nil || checked != addr {
		return fmt.Errorf("address %q can't be handed to clients", addr)
	}
	return nil
}
