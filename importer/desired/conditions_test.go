package desired_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// What a ServiceImport says of parts that are left out, and of a name with nothing behind it. Rules C17, C31 and C35 of
// docs/spec/control-plane.md.
func TestWhatAServiceImportSays(t *testing.T) {
	type change = func(*records.Service)
	both := []string{records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1"), records.Exported("b", "shop", "web", "10.2.0.1", "10.12.0.1")}
	with := func(all ...change) change {
		return func(in *records.Service) {
			for _, c := range all {
				c(in)
			}
		}
	}
	nothing := func(*records.Service) {}
	headless := func(in *records.Service) {
		for _, s := range in.Services {
			s.Spec.Type, s.Spec.ClusterIPs = mcsv1beta1.Headless, nil
		}
	}
	unready := func(clusters ...int) change {
		return func(in *records.Service) {
			for _, i := range clusters {
				in.Endpoints[i].Spec.Endpoints[0].Conditions.Ready = new(bool)
			}
		}
	}
	empty := func(in *records.Service) { in.Endpoints = nil }
	cidrs := func(cluster string) change {
		return func(in *records.Service) {
			in.Members[cluster] = &clustersetv1alpha1.MemberCluster{Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.9.0.0/16"}}}
		}
	}
	in := func(cluster string) change { return func(in *records.Service) { in.Cluster = cluster } }
	const (
		pods, ips, none = desired.DataPathPods, desired.DataPathClusterIPs, desired.DataPathNone
		refused         = "no endpoint is ready in a, b, which export the service: connections to its ClusterSetIP are refused"
		nxdomain        = "no endpoint is ready in a, b, which export the service: its name is NXDOMAIN"
	)
	for _, c := range []struct {
		name                string
		path                desired.DataPath
		change              change
		complete, endpoints string
	}{
		{"all is well", pods, nothing, "", ""},
		{"a headless service is", pods, headless, "", ""},
		{"one cluster has nothing ready", pods, unready(0), "", ""},
		{"none has", pods, unready(0, 1), "", refused},
		{"none has anything", pods, empty, "", refused},
		{"a headless service has nothing ready", pods, with(headless, unready(0, 1)), "", nxdomain},
		{"a headless service has nothing", ips, with(headless, empty), "", nxdomain},
		{"ClusterIPs lead nowhere", ips, unready(0, 1), "", refused},
		{"a ClusterIP that would is missing", ips, with(unready(0), func(in *records.Service) { in.Services[1].Spec.ClusterIPs = nil }), "", refused},
		{"one ClusterIP leads somewhere", ips, unready(0), "", ""},
		{"this cluster's own endpoints need none", ips, with(in("b"), unready(0), func(in *records.Service) {
			in.Own = &records.Own{Endpoints: in.Endpoints[1:]}
		}), "", ""},
		{"the ready ones serve no merged port", pods, with(unready(0), func(in *records.Service) { in.Services[1].Spec.Ports[0].Port = 81 }), "", refused},
		{"by DNS only", none, unready(0, 1), "", "no endpoint is ready in a, b, which export the service: its name has no address"},
		{
			"wrong networks of one", pods, cidrs("b"), "1 part of the exports of b is left out; the first: ExportedEndpoints web.shop.x-0 of cluster \"b\": spec.endpoints: Invalid value: " +
				"\"10.12.0.1\": must lie in spec.cidrs of MemberCluster b on the hub, 10.9.0.0/16: correct them if the address is right", "",
		},
		{"of both", pods, with(cidrs("a"), cidrs("b")), "2 parts of the exports of a, b are left out; the first: ", refused},
		{"networks without its Service range", pods, with(cidrs("b"), func(in *records.Service) { in.Members["b"].Spec.CIDRs = []string{"10.12.0.0/16"} }), "", ""},
		{"of a headless service", pods, with(headless, cidrs("a"), cidrs("b")), "2 parts of the exports of a, b are left out; the first: ExportedEndpoints web.shop.x-0", nxdomain},
		{"its own don't confine a cluster", pods, with(in("b"), cidrs("b")), "", ""},
		{"nor what it reads of itself", ips, with(in("b"), cidrs("b"), func(in *records.Service) {
			in.Own = &records.Own{ClusterIPs: []string{"10.2.0.1"}, Endpoints: in.Endpoints[1:]}
		}), "", ""},
		{"a cluster beyond its cap", pods, func(in *records.Service) { in.Capped = map[string]bool{"b": true} }, "1 part of the exports of b is left out; the first: ", ""},
		{"an invalid label", pods, func(in *records.Service) { in.Services[0].Spec.ExportedLabels = map[string]string{"-": ""} }, "1 part of the exports of a is left out; the first: ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := records.Input(t, c.path, both...)
			c.change(&in)
			out := in.Compute()
			for _, want := range []struct{ kind, reason, says string }{
				{api.ConditionComplete, api.ReasonLeftOut, c.complete}, {api.ConditionEndpoints, api.ReasonNoEndpoints, c.endpoints},
			} {
				is := meta.FindStatusCondition(out.ServiceImport.Status.Conditions, want.kind)
				switch {
				case want.says == "" && is != nil:
					t.Errorf("%s is %+v", want.kind, is)
				case want.says != "" && (is == nil || is.Status != "False" || is.Reason != want.reason || !strings.HasPrefix(is.Message, want.says)):
					t.Errorf("%s is %+v, want %s", want.kind, is, want.says)
				}
			}
		})
	}
}
