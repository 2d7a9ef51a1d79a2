package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/page"
)

var (
	now   = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	zones = []string{"clusterset.local", "svc.global"}
)

const forwarding = `
.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
    forward . /etc/resolv.conf
}
clusterset.local:53 svc.global:53 {
    errors
    cache 5
    forward . 10.96.0.53 {
        max_concurrent 1000
    }
}
`

const stock = `.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa
    forward . /etc/resolv.conf   # clusterset.local would go there
    cache 30
}`

func healthy() *Facts {
	server := func(what string) *Server {
		s := &Server{What: what, Address: "https://" + what + ":6443", Version: "v1.36.3", Timed: true}
		for _, name := range kinds[what] {
			s.CRDs = append(s.CRDs, CRD{Name: name, Served: true})
		}
		s.Rights = slices.Clone(wanted[what])
		for i := range s.Rights {
			s.Rights[i].Allowed = true
		}
		return s
	}
	member := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}, Spec: clustersetv1alpha1.MemberClusterSpec{Zone: "cn-north-1a", Region: "cn-north-1"}}
	here := topology.Location{Cluster: "beijing", Zone: "cn-north-1a", Region: "cn-north-1"}
	return &Facts{
		Now: now, Zones: zones, Cluster: server("cluster"), Hub: server("hub"),
		ClusterDNS:   clusterdns.Place{Key: "kube-system/coredns", Corefile: forwarding},
		NodeLocalDNS: clusterdns.Place{Key: "kube-system/node-local-dns"},
		DNSServer:    "10.96.0.10:53", Replies: []clusterdns.Reply{{Zone: "clusterset.local", Texts: []string{"1.0.0"}}, {Zone: "svc.global", Texts: []string{"1.0.0"}}},
		Set: view.Report{Clusters: []view.Cluster{{Name: "beijing", Local: true}, {Name: "shanghai", Reach: &clustersetv1alpha1.ClusterReachability{Reachable: metav1.ConditionTrue, Reason: "Answers"}}}},
		Pods: []view.Pod{
			{Part: view.PartMember, Namespace: "clusterset-system", Name: "clusterset-member-a", Version: "1.0.0", Ready: true, Restarts: 1},
			{Part: view.PartDNS, Namespace: "clusterset-system", Name: "clusterset-dns-a", Version: "1.0.0", Ready: true, Location: here},
			{Part: view.PartDNS, Namespace: "clusterset-system", Name: "clusterset-dns-b", Version: "1.0.0", Ready: true, Location: here},
		},
		Services: []corev1.Service{
			service("clusterset-system", "clusterset-dns", map[string]string{"part": "dns"}, "10.96.0.53"),
			service("default", "kubernetes", nil, "10.96.0.1"),
			service("kube-system", "kube-dns", map[string]string{"k8s-app": "kube-dns"}, "10.96.0.10"),
			service("shop", "web", map[string]string{"app": "web"}, "10.111.7.7"),
		},
		Workloads: []Workload{
			{Part: view.PartMember, Kind: "Deployment", Namespace: "clusterset-system", Name: "clusterset-member", Wanted: 1, Pods: 1},
			{Part: view.PartDNS, Kind: "Deployment", Namespace: "clusterset-system", Name: "clusterset-dns", Wanted: 2, Pods: 2, Labels: map[string]string{"part": "dns", "hash": "1"}},
		},
		Member:      member,
		Credentials: &Credentials{Key: "clusterset-system/clusterset-hub-credentials", Expires: now.Add(10 * 24 * time.Hour), Lifetime: 14 * 24 * time.Hour},
	}
}

// service has a port for DNS.
func service(namespace, name string, selector map[string]string, ips ...string) corev1.Service {
	return corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ips[0], ClusterIPs: ips, Selector: selector, Ports: []corev1.ServicePort{{Port: 53}}},
	}
}

func TestRender(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"healthy": func(f *Facts) { f.Set.Steered = "by hints, because neither Cilium nor OVN-Kubernetes was found" },
		"bare": func(f *Facts) { // a new cluster without any setup, checked without flags
			for i := range f.Cluster.CRDs {
				f.Cluster.CRDs[i].Served = false
			}
			f.Hub, f.Credentials, f.DNSServer = nil, nil, ""
			f.ClusterDNS.Corefile = stock
			f.NodeLocalDNS = clusterdns.Place{Key: "kube-system/node-local-dns", Corefile: stock}
		},
		"sick": func(f *Facts) {
			f.Cluster.CRDs[0].Outdated = []string{"v1alpha1.spec.weight", "v1alpha1.spec.cidrs"}
			f.Cluster.CRDs[1].Served = false
			f.Cluster.Skew, f.Hub.Skew = 90*time.Second, -time.Minute
			f.Cluster.Rights[0].Allowed, f.Hub.Rights[2].Allowed = false, false
			f.Credentials.Expires = now.Add(2 * time.Hour)
			f.ClusterDNS.Corefile = strings.ReplaceAll(stock, "cluster.local", "cluster.local clusterset.local")
			f.Replies = []clusterdns.Reply{{Zone: "clusterset.local", Err: errors.New("server misbehaving")}, {Zone: "svc.global", Err: errors.New("no such host"), NotFound: true}}
			f.Set.Problems = []view.Problem{{Name: "shanghai", What: "MemberCluster", Reason: "Suspect", Message: "no heartbeat for 1m10s; its endpoints are used only if no others are left", Cure: "read its log"}}
			f.Set.Services.Problems = []view.Problem{{Namespace: "shop", Name: "gone", What: "ServiceExport", Reason: "NoService", Message: "there is no Service shop/gone", Cure: "kubectl describes it"}}
		},
		"refused": func(f *Facts) { // an account with few permissions
			f.ClusterDNS = clusterdns.Place{Key: "kube-system/coredns", Err: errors.New("forbidden")}
			f.NodeLocalDNS = clusterdns.Place{Key: "kube-system/node-local-dns", Err: errors.New("forbidden")}
			f.Cluster.RightsErr, f.Credentials = errors.New("forbidden"), nil
			f.SetErr = errors.New("the cluster refuses: memberclusters.clusterset.dev is forbidden")
			f.Hub.Err = errors.New("the hub at https://hub:6443 can't be reached: connection refused; check --hub-kubeconfig")
			f.Replies = []clusterdns.Reply{{Zone: "clusterset.local", Err: errors.New("i/o timeout"), Timeout: true}}
		},
		"unmeasured": func(f *Facts) {
			f.Set.Clusters = append(f.Set.Clusters, view.Cluster{Name: "tianjin"})
			for reason, name := range map[string]string{"NoBeacon": "a", "NotAllowed": "b", "NeverReached": "c", "WrongCluster": "d"} {
				f.Set.Clusters = append(f.Set.Clusters, view.Cluster{Name: name, Reach: &clustersetv1alpha1.ClusterReachability{Reachable: metav1.ConditionUnknown, Reason: reason}})
			}
			for i := range f.Set.Clusters {
				if c := &f.Set.Clusters[i]; c.Name == "c" {
					c.Reach.Beacons = []string{"10.7.0.1:19471", "[fd00::1]:19471"}
				}
			}
		},
		"pods": func(f *Facts) {
			f.Pods[0].Ready, f.Pods[0].Waits, f.Pods[0].Restarts = false, "CrashLoopBackOff", 7
			f.Pods[1].Version, f.Pods[2].Restarts = "1.1.0", 9
		},
		"no-pods": func(f *Facts) { f.Pods, f.Workloads = nil, nil },
		"not-created": func(f *Facts) { // the agent has no pod at all, and the DNS servers' DaemonSet one on each of two nodes of three
			f.Pods, f.Workloads[0].Pods = f.Pods[1:], 0
			f.Workloads[0].Refused = `pods "clusterset-member-6c-x" is forbidden: exceeded quota: few`
			f.Workloads[1].Kind, f.Workloads[1].Wanted = "DaemonSet", 3
		},
		"nowhere": func(f *Facts) { // the chart was installed again, elsewhere
			f.Services[0].Namespace, f.Workloads[1].Namespace = "names", "names"
			f.Services[0].Spec.ClusterIP, f.Services[0].Spec.ClusterIPs = "10.104.3.7", []string{"10.104.3.7"}
			f.NodeLocalDNS = clusterdns.Place{Key: "kube-system/node-local-dns", Corefile: stock}
		},
		"elsewhere": func(f *Facts) {
			f.Pods[1].Location, f.Pods[2].Location = topology.Location{Cluster: "peking"}, topology.Location{Cluster: "peking"}
		},
		"left": func(f *Facts) { // and was cleaned up
			f.Set, f.Pods, f.Workloads, f.Credentials = view.Build(view.Facts{Now: now, Local: &view.LocalFacts{}}), nil, nil, nil
		},
		"expired": func(f *Facts) { f.Credentials.Expires = now.Add(-time.Hour) },
	} {
		f := healthy()
		change(f)
		d := Diagnose(f)
		page.Fresh(t, "testdata/"+name+".txt", Render(d, false))
		for _, finding := range d.Findings {
			if (finding.Level == Problem) != (finding.Cure != "") {
				t.Errorf("%s: %s %q: a problem has a cure, and nothing else has", name, finding.Level, finding.Message)
			}
		}
		if slices.Contains([]string{"pods", "left", "not-created", "nowhere", "elsewhere"}, name) && d.Problems == 0 {
			t.Errorf("%s: no problem", name)
		}
		if name == "healthy" && d.Problems > 0 {
			t.Error("a healthy cluster has problems")
		}
	}
}

func TestCorefiles(t *testing.T) {
	for name, c := range map[string]struct{ corefile, want string }{
		"forwarded":             {forwarding, "ok ok"},
		"stock":                 {stock, "problem"},
		"one zone":              {stock + "\nsvc.global {\n forward . 10.0.0.1\n}", "ok problem"},
		"plugin in the root":    {".:53 {\n clusterset clusterset.local svc.global\n forward . 1.1.1.1\n}", "ok ok"},
		"plugin for any zone":   {". {\n clusterset\n}", "problem"},
		"forward in the root":   {". {\n forward clusterset.local 10.0.0.1\n forward svc.global 10.0.0.1\n forward . 1.1.1.1\n}", "ok ok"},
		"a snippet":             {"(us) {\n forward . 10.0.0.1\n}\nclusterset.local, svc.global:53 {\n import us\n}", "skipped"},
		"a scheme, upper case":  {"dns://ClusterSet.Local.:1053 tls://svc.global {\n forward . 10.0.0.1\n}", "ok ok"},
		"quotes and comments":   {"\"clusterset.local\" { # {\n forward . \"10.0.0.1\" # }\n}\n# svc.global {\n#}\n", "ok problem"},
		"imported files":        {stock + "\nimport /etc/coredns/custom/*.server", "skipped"},
		"kubernetes plugin":     {strings.ReplaceAll(stock, "kubernetes cluster.local", "kubernetes cluster.local clusterset.local"), "problem problem"},
		"a block without a way": {"clusterset.local svc.global {\n errors\n}", "problem"},
		"braces of options":     {"clusterset.local svc.global {\n cache {\n  forward x\n }\n forward . 10.0.0.1 {\n  policy random\n }\n}", "ok ok"},
	} {
		var got []string
		facts := healthy()
		facts.Services[0].Spec.ClusterIPs = []string{"10.96.0.53", "10.0.0.1"}
		for _, f := range facts.checkPlace("clusterdns", &clusterdns.Place{Corefile: c.corefile}) {
			got = append(got, string(f.Level))
		}
		slices.Sort(got)
		want := strings.Fields(c.want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A token that lives for a day or less isn't about to expire while the agent may yet renew it.
func TestTokensOfAnyLifetime(t *testing.T) {
	for _, c := range []struct {
		lifetime, left time.Duration
		want           Level
	}{
		{14 * 24 * time.Hour, 25 * time.Hour, OK},
		{14 * 24 * time.Hour, 23 * time.Hour, Problem},
		{24 * time.Hour, 12 * time.Hour, OK},
		{24 * time.Hour, 7 * time.Hour, Problem},
		{10 * time.Minute, 5 * time.Minute, OK},
		{10 * time.Minute, 3 * time.Minute, Problem},
		{10 * time.Minute, -time.Minute, Problem},
	} {
		f := checkCredentials(&Facts{Now: now, Credentials: &Credentials{Expires: now.Add(c.left), Lifetime: c.lifetime}})
		if len(f) != 1 || f[0].Level != c.want {
			t.Errorf("%s left of %s: %+v, want %s", c.left, c.lifetime, f, c.want)
		}
	}
}
