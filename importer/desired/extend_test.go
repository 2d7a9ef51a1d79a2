package desired_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// ownWeb is the Service shop/web of the cluster beijing.
const ownWeb = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {clusterset.dev/extend: "true"}}
spec: {clusterIP: 10.1.0.1, ipFamilies: [IPv4], selector: {app: web}, ports: [{name: http, port: 80, protocol: TCP}]}
`

func serviceOf(t *testing.T, text string) *corev1.Service {
	t.Helper()
	return records.Decode(t, text)[0].(*corev1.Service)
}

// withPods returns the state of beijing's own Service with that many ready pods.
func withPods(t *testing.T, n int) *records.Own {
	t.Helper()
	own := &records.Own{ClusterIPs: []string{"10.1.0.1"}}
	for i := range n {
		in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", fmt.Sprintf("10.11.0.%d", i+5)))
		own.Endpoints = append(own.Endpoints, in.Endpoints...)
	}
	return own
}

// extended returns what the slices of an extended Service say, such as "10.12.0.5 http:8080 last".
func extended(t *testing.T, out desired.Output) (all []string) {
	t.Helper()
	for _, s := range out.Extending {
		if s.Labels[api.LabelKubernetesServiceName] != "web" || s.Labels[api.LabelServiceName] != "" || !desired.Owned(s) || !desired.Extends(s) {
			t.Errorf("%s has the labels %v", s.Name, s.Labels)
		}
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d", *p.Name, *p.Port))
		}
		for i := range s.Endpoints {
			all = append(all, fmt.Sprint(s.Endpoints[i].Addresses[0], " ", strings.Join(ports, ","), " ", usedAs(&s.Endpoints[i])))
		}
	}
	slices.Sort(all)
	return all
}

// usedAs says when kube-proxy uses an endpoint: always ("ready"), or only while a Service has no ready one ("last").
func usedAs(e *discoveryv1.Endpoint) string {
	c := e.Conditions
	switch {
	case c.Ready != nil && *c.Ready && c.Serving == nil && c.Terminating == nil && e.Hints == nil:
		return "ready"
	case c.Ready != nil && !*c.Ready && c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
		return "last"
	}
	return fmt.Sprintf("%+v", c)
}

// Rules D60, D61, D63, D64, D65 and D66 of docs/spec/data-path.md.
func TestExtending(t *testing.T) {
	shanghai := records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5")
	tianjin := records.Exported("tianjin", "shop", "web", "10.3.0.1", "10.13.0.5")
	beijing := records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5")
	here, near, far := member("beijing", "bj-1", "north", "Ready", ""), member("tianjin", "tj-1", "north", "Ready", ""), member("shanghai", "sh-1", "east", "Ready", "")
	unready := strings.Replace(tianjin, "endpoints: [{", "endpoints: [{conditions: {ready: false}, ", 1)
	suspect, drained, expired := member("shanghai", "sh-1", "east", "Suspect", ""), member("shanghai", "sh-1", "east", "Ready", ", drain: true"), member("shanghai", "sh-1", "east", "Expired", "")
	share := func(records string, percent int) string {
		return strings.Replace(records, "type: ClusterSetIP", fmt.Sprintf("share: %d\n  type: ClusterSetIP", percent), 1)
	}
	pair := strings.Replace(shanghai, "[10.12.0.5]}", "[10.12.0.5]}, {addresses: [10.12.0.6]}", 1)
	none, two := topology.Policy{Prefer: []topology.Tier{}}, topology.Policy{MinReady: 2}
	for _, c := range []struct {
		name    string
		service string // ownWeb, changed by replacing the first by the second
		records []string
		path    desired.DataPath
		policy  topology.Policy
		pods    int
		want    string
		why     string // contained in the reason
		// unreachable is a cluster that this one can't reach.
		unreachable string
	}{
		{name: "D60: the near ones, of last resort", records: []string{here, near, far, beijing, shanghai, tianjin}, pods: 1, want: "10.13.0.5 http:8080 last"},
		{name: "D60: also of a service that this cluster doesn't export", records: []string{here, near, far, shanghai, tianjin}, want: "10.13.0.5 http:8080 last"},
		{name: "D60: the far ones if no near one is ready", records: []string{here, near, far, beijing, shanghai, unready}, want: "10.12.0.5 http:8080 last"},
		{name: "D60: none if none is ready", records: []string{here, near, beijing, unready}},
		{name: "D60: nothing leads out of a boundary", records: []string{here, far, beijing, shanghai}, policy: topology.Policy{Boundary: topology.Region}},
		{name: "D61: not without the annotation", service: `clusterset.dev/extend: "true"|clusterset.dev/extend: "false"`, records: []string{shanghai}},
		{name: "D61: a value that means nothing", service: `clusterset.dev/extend: "true"|clusterset.dev/extend: "yes"`, records: []string{shanghai}, why: `"yes"; it must be "true"`},
		{name: "D61: headless", service: "10.1.0.1|None", records: []string{shanghai}, why: "headless"},
		{name: "D61: no selector", service: ", selector: {app: web}|", records: []string{shanghai}, why: "selector"},
		{name: "D61: ExternalName", service: "selector: {app: web}|type: ExternalName, externalName: a.example", records: []string{shanghai}, why: "ExternalName"},
		{name: "D61: nobody else exports it", records: []string{beijing}, why: "no other cluster exports"},
		{name: "D61: nobody exports it", why: "no other cluster exports"},
		{name: "D61: headless elsewhere", records: []string{strings.NewReplacer("type: ClusterSetIP", "type: Headless", "clusterIPs: [10.2.0.1]", "clusterIPs: []").Replace(shanghai)}, why: "headless"},
		{name: "D61: no port elsewhere", records: []string{strings.Replace(shanghai, "ports: [{name: http, port: 80}]", "ports: []", 1)}, why: "without a usable port"},
		{name: "D61: no data path", path: desired.DataPathNone, records: []string{shanghai}, why: "--data-path=none"},
		{name: "D63: no port in common", service: "http|grpc", records: []string{shanghai}, why: "must have the same name"},
		{name: "D63: a port that others lack stays local", service: "ports: [|ports: [{name: admin, port: 81}, ", records: []string{shanghai}, want: "10.12.0.5 http:8080 last"},
		{name: "D63: ports of other numbers", service: "port: 80|port: 8888", records: []string{shanghai}, want: "10.12.0.5 http:8080 last"},
		{name: "D63: a port without a name, by its number", service: "name: http, |", records: []string{shanghai}, want: "10.12.0.5 :8080 last"},
		{name: "D63: a port without a name, and with another number", service: "name: http, port: 80|port: 81", records: []string{shanghai}, why: "must have the same name"},
		{name: "D64: prefer none", records: []string{here, near, far, beijing, shanghai, tianjin}, policy: none, pods: 1, want: "10.12.0.5 http:8080 ready|10.13.0.5 http:8080 ready"},
		{name: "D64: enough pods for min-ready", records: []string{here, near, far, beijing, shanghai, tianjin}, policy: two, pods: 2, want: "10.12.0.5 http:8080 last|10.13.0.5 http:8080 last"},
		{name: "D64: too few for min-ready, with the next tier enough", records: []string{here, near, far, beijing, shanghai, tianjin}, policy: two, pods: 1, want: "10.13.0.5 http:8080 ready"},
		{name: "D64: none of its own", records: []string{here, near, far, beijing, shanghai, tianjin}, policy: two, want: "10.12.0.5 http:8080 ready|10.13.0.5 http:8080 ready"},
		{
			name: "D64: hints", service: "selector:|trafficDistribution: PreferClose, selector:", records: []string{here, near, far, tianjin}, policy: none, pods: 1,
			want: "10.13.0.5 http:8080 last", why: "trafficDistribution",
		},
		{
			name: "D65: Suspect ones last", pods: 1, want: "10.12.0.5 http:8080 last",
			records: []string{here, member("tianjin", "tj-1", "north", "Suspect", ""), far, beijing, shanghai, tianjin},
		},
		{
			name: "D65: drained ones last", pods: 1, want: "10.12.0.5 http:8080 last",
			records: []string{here, member("tianjin", "tj-1", "north", "Ready", ", drain: true"), far, beijing, shanghai, tianjin},
		},
		{name: "D65: unreachable ones last", pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, near, far, beijing, shanghai, tianjin}, unreachable: "tianjin"},
		{name: "D65: but before none", pods: 1, want: "10.13.0.5 http:8080 last", records: []string{here, near, beijing, tianjin}, unreachable: "tianjin"},
		{name: "D65: with prefer none, too", policy: none, want: "10.12.0.5 http:8080 ready", records: []string{here, near, far, beijing, shanghai, tianjin}, unreachable: "tianjin"},
		{name: "D65: no unreachable cluster besides own pods", policy: none, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, far, shanghai}, unreachable: "shanghai"},
		{name: "D65: nor for min-ready", policy: two, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, far, shanghai}, unreachable: "shanghai"},
		{name: "D65: no drained cluster besides own pods", policy: none, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, drained, shanghai}},
		{name: "D65: nor for min-ready", policy: two, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, drained, shanghai}},
		{name: "D65: no Suspect cluster besides own pods", policy: none, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, suspect, shanghai}},
		{name: "D65: no Expired cluster besides own pods", policy: none, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, expired, shanghai}},
		{
			name: "D65: endpoints within a share besides own pods, spare ones last", policy: none, pods: 1, want: "10.13.0.5 http:8080 ready",
			records: []string{here, near, far, share(shanghai, 0), share(tianjin, 50)},
		},
		{name: "D65: no spare endpoint besides own pods", policy: none, pods: 1, want: "10.12.0.5 http:8080 last", records: []string{here, far, share(shanghai, 0)}},
		{name: "D65: half of two, and not the other", policy: none, pods: 1, want: "10.12.0.6 http:8080 ready", records: []string{here, far, share(pair, 50)}},
		{name: "D66: no ClusterIP with the share 0", path: desired.DataPathClusterIPs, records: []string{here, near, share(tianjin, 0)}},
		{name: "D66: but with more", path: desired.DataPathClusterIPs, records: []string{here, near, share(tianjin, 1)}, want: "10.3.0.1 http:80 last"},
		{name: "D66: no ClusterIP of an unreachable cluster", path: desired.DataPathClusterIPs, records: []string{here, near, beijing, tianjin}, unreachable: "tianjin"},
		{
			name: "C18: nothing of clusters that share no community", want: "10.12.0.5 http:8080 last",
			records: []string{here, member("tianjin", "tj-1", "north", "Ready", ", communities: [others]"), far, beijing, shanghai, tianjin},
		},
		{
			name: "C19: nothing that is exported to others only", want: "10.12.0.5 http:8080 last",
			records: []string{here, near, far, beijing, shanghai, strings.Replace(tianjin, "type: ClusterSetIP", "exportTo: [shanghai]\n  type: ClusterSetIP", 1)},
		},
		{name: "D66: ClusterIPs", path: desired.DataPathClusterIPs, records: []string{here, near, far, beijing, shanghai, tianjin}, pods: 1, want: "10.3.0.1 http:80 last"},
		{name: "D66: no ClusterIP without ready endpoints", path: desired.DataPathClusterIPs, records: []string{here, near, beijing, unready}},
		{name: "D66: nor of a drained cluster", path: desired.DataPathClusterIPs, records: []string{here, member("tianjin", "tj-1", "north", "Ready", ", drain: true"), tianjin}},
		{
			name: "D66: nor besides own pods", path: desired.DataPathClusterIPs, records: []string{here, near, beijing, tianjin}, policy: none, pods: 1,
			want: "10.3.0.1 http:80 last", why: "clusterips",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := records.Input(t, cmp.Or(c.path, desired.DataPathPods), c.records...)
			in.Cluster, in.Policy, in.Own = "beijing", c.policy, withPods(t, c.pods)
			in.Unreachable = func(cluster string) bool { return cluster == c.unreachable }
			from, to, _ := strings.Cut(c.service, "|")
			if svc := serviceOf(t, strings.Replace(ownWeb, from, to, 1)); desired.AsksToBeExtended(svc) {
				in.Extended = &desired.Extended{Service: svc, Allowed: true}
			}
			out := in.Compute()
			if got := strings.Join(extended(t, out), "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (out.NotExtended == "") != (c.why == "") || !strings.Contains(out.NotExtended, c.why) {
				t.Errorf("the reason is %q, want one with %q", out.NotExtended, c.why)
			}
		})
	}
}

// Rule D62 of docs/spec/data-path.md.
func TestWhereServicesMayBeExtended(t *testing.T) {
	open := map[string]string{api.KeyExtend: api.ExtendAllowed}
	for _, c := range []struct {
		namespace, service string
		labels             map[string]string
		everywhere, want   bool
	}{
		{"shop", "web", nil, false, false},
		{"shop", "web", map[string]string{api.KeyExtend: "true"}, false, false},
		{"shop", "web", open, false, true},
		{"shop", "web", nil, true, true},
		{"kube-system", "kube-dns", open, true, false},
		{"default", "kubernetes", open, true, false},
		{"default", "web", open, false, true},
	} {
		if got := desired.MayExtend(c.namespace, c.service, c.labels, c.everywhere); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	in := records.Input(t, desired.DataPathPods, records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	in.Cluster, in.Extended = "beijing", &desired.Extended{Service: serviceOf(t, ownWeb)}
	if out := in.Compute(); len(out.Extending) > 0 || !strings.Contains(out.NotExtended, "kubectl label namespace shop clusterset.dev/extend=allowed") {
		t.Errorf("%d slices, and the reason %q", len(out.Extending), out.NotExtended)
	}
	in.Extended.Allowed, in.Extended.Excluded = true, true
	if out := in.Compute(); len(out.Extending) > 0 || !strings.Contains(out.NotExtended, "--import-namespaces") {
		t.Errorf("%d slices, and the reason %q", len(out.Extending), out.NotExtended)
	}
}
