package manifests

import (
	"encoding/json"
	"iter"
	"net/netip"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/topology"
)

// Append appends an API object in JSON, without a line break, that Decode reads as o. It is the inverse of conversion, but fields that DNS
// doesn't need are lost, such as a MemberCluster's cidrs, and an endpoint with several addresses may become several endpoints. o is no
// Reachability. It writes JSON by hand because a DNS server saves hundreds of thousands of objects: converting them to API objects for
// encoding/json would take ten times as long and cause nearly all of the garbage.
func Append(b []byte, o index.Object) []byte {
	switch o := o.(type) {
	case *index.ServiceImport:
		return appendServiceImport(b, o)
	case *index.EndpointSlice:
		return appendEndpointSlice(b, o)
	case *index.GlobalService:
		return appendGlobalService(b, o)
	case *index.Cluster:
		return appendMemberCluster(b, o)
	}
	return b
}

func appendServiceImport(b []byte, o *index.ServiceImport) []byte {
	b = appendHead(b, mcsv1beta1.GroupVersion.String(), o)
	if o.FromImporter {
		b = append(b, `,"labels":{"`+api.LabelManagedBy+`":"`+api.ManagedByImporter+`"}`...)
	}
	b = appendPolicy(b, o.Policy)
	b = append(b, `},"spec":{"type":`...)
	if o.Headless {
		b = appendString(b, string(mcsv1beta1.Headless))
	} else {
		b = appendString(b, string(mcsv1beta1.ClusterSetIP))
	}
	if len(o.IPs) > 0 {
		b = appendAddrs(append(b, `,"ips":`...), slices.Values(o.IPs))
	}
	b = appendPorts(append(b, `,"ports":`...), o.Ports)
	return append(b, "}}"...)
}

func appendEndpointSlice(b []byte, o *index.EndpointSlice) []byte {
	b = appendHead(b, discoveryv1.SchemeGroupVersion.String(), o)
	b = append(b, `,"labels":{"`+mcsv1beta1.LabelServiceName+`":`...)
	b = appendString(b, o.Service.Name())
	b = appendField(b, mcsv1beta1.LabelSourceCluster, o.Cluster)
	family := discoveryv1.AddressTypeIPv4
	if len(o.Endpoints) > 0 && o.Endpoints[0].Addr.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	b = append(b, `}},"addressType":"`...)
	b = append(b, family...)
	b = append(b, `","endpoints":[`...)
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		b = appendEndpoint(appendComma(b, i), []index.Endpoint{*e})
		if !e.Ready {
			b = append(b, `,"conditions":{"ready":false}`...)
		}
		b = append(b, '}')
	}
	b = appendPorts(append(b, `],"ports":`...), o.Ports)
	return append(b, '}')
}

func appendGlobalService(b []byte, o *index.GlobalService) []byte {
	b = appendHead(b, fabedgev1alpha1.GroupVersion.String(), o)
	b = appendPolicy(b, o.Policy)
	b = append(b, `},"spec":{"type":`...)
	if o.Headless {
		b = appendString(b, string(fabedgev1alpha1.Headless))
	} else {
		b = appendString(b, string(fabedgev1alpha1.ClusterIP))
	}
	b = appendPorts(append(b, `,"ports":`...), o.Ports)
	b = append(b, `,"endpoints":[`...)
	first := 0
	for i := range o.Groups {
		g := &o.Groups[i]
		for rest := g.Endpoints; len(rest) > 0; first++ {
			n := alike(rest)
			b = appendEndpoint(appendComma(b, first), rest[:n])
			b = appendField(b, "cluster", g.Cluster)
			b = appendField(b, "region", g.Region)
			if !rest[0].Ready {
				b = append(b, `,"ready":false`...)
			}
			if !slices.Equal(g.Ports, o.Ports) {
				b = appendPorts(append(b, `,"ports":`...), g.Ports) // an empty list isn't the same as none: see FromGlobalService
			}
			b = append(b, '}')
			rest = rest[n:]
		}
	}
	return append(b, "]}}"...)
}

// alike returns how many of the endpoints, from the first on, can be written as addresses of one endpoint. With one endpoint per address, a
// GlobalService could have more endpoints than are read (api.MaxGlobalServiceEndpoints).
func alike(endpoints []index.Endpoint) int {
	first := &endpoints[0]
	for n := 1; n < min(len(endpoints), api.MaxAddresses); n++ {
		e := &endpoints[n]
		sameAddr := func(other index.Endpoint) bool { return other.Addr == e.Addr }
		if e.Hostname != first.Hostname || e.Zone != first.Zone || e.Ready != first.Ready || slices.ContainsFunc(endpoints[:n], sameAddr) {
			return n
		}
	}
	return min(len(endpoints), api.MaxAddresses)
}

func appendMemberCluster(b []byte, o *index.Cluster) []byte {
	b = appendHead(b, clustersetv1alpha1.GroupVersion.String(), o)
	b = append(b, `},"spec":{`...)
	weight := int64(o.Weight)
	if weight == 0 {
		weight = int64(clustersetv1alpha1.DefaultWeight)
	}
	b = strconv.AppendInt(append(b, `"weight":`...), weight, 10)
	if len(o.Zones) == 1 {
		b = appendField(b, "zone", o.Zones[0])
	} else if len(o.Zones) > 1 {
		b = append(b, `,"zones":[`...)
		for i, zone := range o.Zones {
			b = appendString(appendComma(b, i), zone)
		}
		b = append(b, ']')
	}
	b = appendField(b, "region", o.Region)
	if o.Drain {
		b = append(b, `,"drain":true`...)
	}
	b = append(b, `},"status":{`...)
	switch o.Phase {
	case topology.Suspect:
		b = append(b, `"phase":"`+clustersetv1alpha1.MemberSuspect+`"`...)
	case topology.Expired:
		b = append(b, `"phase":"`+clustersetv1alpha1.MemberExpired+`"`...)
	}
	return append(b, "}}"...)
}

// appendPolicy adds the annotations of a policy to metadata.
func appendPolicy(b []byte, p *topology.Policy) []byte {
	if p == nil {
		return b
	}
	open := `,"annotations":{`
	stated := policy.Annotations(*p)
	for _, key := range policy.Written {
		if text, ok := stated[key]; ok {
			b = append(append(append(b, open...), '"'), key...)
			b = appendString(append(b, `":`...), text)
			open = ","
		}
	}
	if open == "," {
		b = append(b, '}')
	}
	return b
}

// appendHead starts an object and leaves its metadata open.
func appendHead(b []byte, apiVersion string, o index.Object) []byte {
	b = append(b, `{"apiVersion":"`...)
	b = append(b, apiVersion...)
	b = append(b, `","kind":"`...)
	b = append(b, o.Kind().String()...)
	b = append(b, `","metadata":{"name":`...)
	id := o.ID()
	b = appendString(b, id.Name)
	return appendField(b, "namespace", id.Namespace)
}

// appendEndpoint starts an endpoint with a hostname and zone and leaves it open.
func appendEndpoint(b []byte, addresses []index.Endpoint) []byte {
	b = append(b, `{"addresses":`...)
	b = appendAddrs(b, func(yield func(netip.Addr) bool) {
		for i := range addresses {
			if !yield(addresses[i].Addr) {
				return
			}
		}
	})
	b = appendField(b, "hostname", addresses[0].Hostname)
	return appendField(b, "zone", addresses[0].Zone)
}

func appendAddrs(b []byte, addrs iter.Seq[netip.Addr]) []byte {
	open := '['
	for a := range addrs {
		b = append(append(b, byte(open)), '"')
		b = append(a.AppendTo(b), '"')
		open = ','
	}
	return append(b, ']')
}

var protocols = [...]string{index.TCP: "TCP", index.UDP: "UDP", index.SCTP: "SCTP"}

func appendPorts(b []byte, ports []index.Port) []byte {
	b = append(b, '[')
	for i, p := range ports {
		b = append(appendComma(b, i), `{"port":`...)
		b = strconv.AppendUint(b, uint64(p.Number), 10)
		b = appendField(b, "name", p.Name)
		if p.Protocol != index.TCP {
			b = appendField(b, "protocol", protocols[p.Protocol])
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendField appends a further field of an object, unless it is empty.
func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendString(b, value)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always can be
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
