package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/view"
)

// A stanza that forwards to an address behind which no clusterset server is isn't right. It is skipped if that can't be known.
func TestStanzaThatLeadsNowhere(t *testing.T) {
	ours := map[string]string{"app.kubernetes.io/name": "clusterset", "app.kubernetes.io/component": "dns"}
	published := service("names", "published", ours, "10.96.4.8", "fd00:96::8")
	metrics := service("names", "a-metrics", ours, "10.96.4.6")
	metrics.Spec.Ports[0].Port = 9153
	var f Facts
	f.Services = []corev1.Service{
		metrics, service("names", "headless", ours, "None"), published, service("other", "same-labels", ours, "10.96.4.9"),
		service("default", "kubernetes", nil, "10.96.0.1", "fd00:96::1"), service("kube-system", "kube-dns", map[string]string{"k8s-app": "kube-dns"}, "10.96.0.10"),
	}
	f.Zones = zones
	f.Workloads = []Workload{{Part: view.PartMember, Namespace: "other", Labels: ours}, {Part: view.PartDNS, Namespace: "names", Labels: ours}}
	none, refused, refusedServices, apart := f, f, f, f
	none.Workloads = f.Workloads[:1]
	refused.Workloads, refused.WorkloadsErr = nil, errors.New("the cluster refuses")
	refusedServices.Services = nil
	apart.Services = append(slices.Clone(f.Services), service("shop", "web", nil, "172.20.0.1"))
	for _, c := range []struct {
		facts      *Facts
		check, to  string
		want       Level
		says, cure string
	}{
		{&f, "clusterdns", "10.96.4.8", OK, "", ""},
		{&f, "clusterdns", "dns://10.96.4.8:53 [fd00:96::8]:53", OK, "", ""},
		{&f, "nodelocaldns", "10.96.0.10", OK, "", ""}, // the cluster DNS, which has a stanza of its own

		{&f, "clusterdns", "10.96.3.3", Problem, "10.96.3.3, which is the address of no Service", "clusterset dns enable"},
		{&f, "clusterdns", "10.96.4.8 10.96.3.3", Problem, "10.96.3.3, which", "clusterset dns enable"},
		{&f, "clusterdns", "10.96.0.10", Problem, "the address of the Service kube-system/kube-dns, behind which no clusterset server is", "clusterset dns enable"},
		{&f, "clusterdns", "10.96.4.9", Problem, "other/same-labels", "clusterset dns enable"},
		{&none, "clusterdns", "10.96.3.3", Problem, "the address of no Service", "clusterset dns enable"},

		{&f, "clusterdns", "203.0.113.9", Skipped, "isn't known", ""},
		{&f, "clusterdns", "/etc/resolv.conf", Skipped, "isn't known", ""},
		{&f, "clusterdns", "10.96.0.1", Skipped, "isn't known", ""},
		{&apart, "clusterdns", "10.96.3.3", Skipped, "isn't known", ""}, // there are several ranges, with others' addresses between
		{&none, "clusterdns", "10.96.4.8", Skipped, "isn't known", ""},
		{&refused, "clusterdns", "10.96.4.8", Skipped, "isn't known", ""},
		{&refusedServices, "clusterdns", "10.96.4.8", Skipped, "isn't known", ""},
	} {
		corefile := &clusterdns.Place{Key: "kube-system/coredns", Corefile: "clusterset.local svc.global {\n forward . " + c.to + "\n}"}
		for _, got := range c.facts.checkPlace(c.check, corefile) {
			if got.Level != c.want || !strings.Contains(got.Message, c.says) || !strings.Contains(got.Message, "forwards ") || !strings.Contains(got.Cure, c.cure) {
				t.Errorf("%s to %s: %+v, want %s %q %q", c.check, c.to, got, c.want, c.says, c.cure)
			}
		}
	}
}
