package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
)

// DefaultZone is the zone of a name without one.
const DefaultZone = "clusterset.local"

// Name is a name that can be queried.
type Name struct {
	Key     index.ServiceKey
	Labels  string // before the service's name: a port, a host or a cluster
	Zone    string // the part after svc, without its final dot
	Dialect index.Dialect
	// Short says that the name was SERVICE.NAMESPACE or SERVICE.NAMESPACE.svc: in a pod that is a Service of its own cluster, if there is one.
	Short bool
}

// Own returns the name of the cluster's own Service.
func (n Name) Own() Name { return Name{Key: n.Key, Zone: OwnZone, Dialect: n.Dialect} }

// String returns the name as in a query, with the final dot, so that a resolver doesn't use its search path.
func (n Name) String() string {
	return n.below() + "." + n.Zone + "."
}

func (n Name) below() string {
	s := string(n.Key) + ".svc"
	if n.Labels != "" {
		s = n.Labels + "." + s
	}
	return s
}

// ParseName parses NAMESPACE/SERVICE, SERVICE.NAMESPACE, or a DNS name [LABELS.]SERVICE.NAMESPACE.svc[.ZONE]. Names below svc.global
// have the global dialect, all others mcs.
func ParseName(s string) (Name, error) {
	n := Name{Zone: DefaultZone, Dialect: index.MCS}
	lower := strings.ToLower(strings.TrimSuffix(s, "."))
	var service, namespace string
	if namespaceFirst, name, ok := strings.Cut(lower, "/"); ok {
		service, namespace = name, namespaceFirst
	} else {
		before, zone, ok := cutSvc(lower)
		n.Zone = cmp.Or(zone, DefaultZone)
		labels := strings.Split(before, ".")
		if len(labels) < 2 || !ok && len(labels) > 2 {
			return Name{}, fmt.Errorf("%q isn't the name of a service: want NAMESPACE/SERVICE, SERVICE.NAMESPACE or SERVICE.NAMESPACE.svc.%s", s, DefaultZone)
		}
		service, namespace = labels[len(labels)-2], labels[len(labels)-1]
		n.Labels = strings.Join(labels[:len(labels)-2], ".")
		n.Short = n.Labels == "" && zone == "" && !strings.HasSuffix(s, ".")
	}
	for what, label := range map[string]string{"service": service, "namespace": namespace} {
		if err := api.CheckLabel(label); err != nil {
			return Name{}, fmt.Errorf("%q isn't the name of a service: the %s %q %w", s, what, label, err)
		}
	}
	if n.Zone == "global" {
		n.Dialect = index.Global
	}
	n.Key = index.NewServiceKey(namespace, service)
	return n, nil
}

// cutSvc splits a name at its label svc: the last one that follows a service and a namespace. A service or namespace can be named svc
// too; zones don't contain a service and a namespace.
func cutSvc(s string) (before, zone string, ok bool) {
	if before, ok = strings.CutSuffix(s, ".svc"); ok && strings.Contains(before, ".") {
		return before, "", true
	}
	if at := strings.LastIndex(s, ".svc."); at >= 0 && strings.Contains(s[:at], ".") {
		return s[:at], s[at+len(".svc."):], true
	}
	return s, "", false
}
