package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

const (
	previewSteps = 20
	// A path is broken until this step, before the first that changes communities or networks, and so who measures whom (D40 and D87 of
	// docs/spec/data-path.md): that a path is measured again, a preview can't know.
	previewMend = 5
)

// TestPreviewComesTrue previews random changes of random services and clusters, makes each change, and compares every answer in every
// cluster with the prediction: the DNS answers for both names, and the endpoints that the cluster's own EndpointSlices put
// behind the ClusterSetIP. The first change is a path that breaks between agents, the last a cluster that fails.
func TestPreviewComesTrue(t *testing.T) {
	seed, _ := random.Seeds(t)
	f := outages(t)
	p := &previewed{Fleet: f, ns: f.Namespace("preview"), Rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable on purpose
	t.Cleanup(func() {
		for _, m := range f.Members {
			patchMember(p.Fleet, m.Spec.Name, fmt.Sprintf(`{"spec":{"drain":false,"zone":%q,"zones":null,"region":%q,"communities":null,"network":null,"externalCIDRs":null}}`, m.Spec.Zone, m.Spec.Region))
		}
		f.Paths.MendAll()
		for _, m := range f.Members {
			m.StartAgent()
		}
		kube.Eventually(t, func() error { return f.AllReached() })
	})
	p.begin()
	p.step(func(*preview.State) previewStep {
		from, to := f.Members[0].Spec.Name, f.Members[1].Spec.Name
		return previewStep{preview.Change{Unreachable: &preview.Unreachable{Clusters: []string{to}, From: []string{from}}}, func() {
			p.Paths.Cut(from, to, faultproxy.Condition{ToServer: true, ToClient: true})
			p.cut = map[string]string{from: to}
		}}
	})
	for i := range previewSteps {
		if i == previewMend {
			p.Paths.MendAll()
			p.cut = nil
		}
		p.step(func(now *preview.State) previewStep { return p.pick(i, now) })
	}
	// The hub process must first see the cluster as Expired, which takes some time.
	f.Hub.Restart("--suspect-after", "4s", "--expire-after", "8s")
	f.Settle()
	victim := f.Members[p.IntN(len(f.Members))]
	p.step(func(*preview.State) previewStep {
		return previewStep{preview.Change{Down: []string{victim.Spec.Name}}, victim.KillAgent}
	})
}

// previewed is a fleet with the services whose changes are previewed.
type previewed struct {
	*fleettest.Fleet
	*rand.Rand
	ns    string
	steps int
	cut   map[string]string // which cluster each can't reach
}

// previewStep is a change and the function that makes it.
type previewStep struct {
	preview.Change
	do func()
}

var previewNames = []string{"vip", "two", "headless", "mixed"}

// begin creates the services, and exports most of them.
func (p *previewed) begin() {
	for i, m := range p.Members {
		for n, name := range previewNames {
			spec := fmt.Sprintf("externalIPs: [192.0.2.%d], %s", 10*m.Number+n+1, httpPort)
			if name == "two" {
				spec = httpPort // clusters of other networks don't reach it
			}
			if name == "headless" || name == "mixed" && i == 1 {
				spec = "clusterIP: None, " + httpPort
			}
			var endpoints []string
			for e := range 1 + p.IntN(3) {
				endpoints = append(endpoints, endpoint(fmt.Sprintf("10.20%d.%d.%d", m.Number, 20+n, e+1), fmt.Sprintf("conditions: {ready: %v}", e == 0 || p.IntN(3) > 0)))
			}
			m.Apply(service(p.ns, name, spec), slice(p.ns, name, port8080, endpoints...))
			if p.IntN(3) > 0 {
				m.Apply(export(p.ns, name, ""))
			}
		}
	}
}

// pick returns a random change. Its kind depends on i. If that kind isn't possible now, a cluster gets another zone and region
// instead.
func (p *previewed) pick(i int, now *preview.State) previewStep {
	m := p.Members[p.IntN(len(p.Members))]
	name := previewNames[p.IntN(len(previewNames))]
	service := p.ns + "/" + name
	var exporting, others []*fleettest.Member
	for _, m := range p.Members {
		if err := m.Get(p.ns, name, &mcsv1beta1.ServiceExport{}); err == nil {
			exporting = append(exporting, m)
		} else {
			others = append(others, m)
		}
	}
	switch kind := i % 10; {
	case kind == 0:
		return p.patched(m, preview.Change{Drain: []string{m.Spec.Name}}, `{"drain":true}`)
	case kind == 1:
		return p.patched(m, preview.Change{Undrain: []string{m.Spec.Name}}, `{"drain":false}`)
	case kind == 2 && len(exporting) > 0:
		from := exporting[p.IntN(len(exporting))]
		return previewStep{preview.Change{Unexport: &preview.Export{Service: service, From: from.Spec.Name}}, func() { from.Remove(export(p.ns, name, "")) }}
	case kind == 3 && len(others) > 0:
		from := others[p.IntN(len(others))]
		exported, err := p.exportOf(from, name, nil)
		if err != nil {
			p.Fatal(err)
		}
		r := &preview.Records{Service: exported.Service}
		for i := range exported.Endpoints {
			r.Endpoints = append(r.Endpoints, &exported.Endpoints[i])
		}
		return previewStep{preview.Change{Export: &preview.Export{Service: service, From: from.Spec.Name, Records: r}}, func() { from.Apply(export(p.ns, name, "")) }}
	case kind == 4 && len(exporting) > 0:
		stated := &preview.Policy{Service: service, ServicePolicy: clustersetv1alpha1.ServicePolicy{Prefer: []string{"none", "region", "cluster zone"}[p.IntN(3)], MinReady: int32(1 + p.IntN(4))}}
		return previewStep{preview.Change{Policy: stated}, func() {
			for _, m := range exporting {
				m.Apply(exportWith(p.ns, name, fmt.Sprintf("clusterset.dev/prefer: %q, clusterset.dev/min-ready: %q", stated.Prefer, fmt.Sprint(stated.MinReady))))
			}
		}}
	case kind == 5:
		// A cluster in no community counts as in default, so the two see each other only if the moved cluster is in default, too.
		to := [][]string{{"north"}, {"south"}, {"default", "north"}, {"north", "south"}}[p.IntN(4)]
		return p.patched(m, preview.Change{Place: &preview.Place{Cluster: m.Spec.Name, Communities: to}}, `{"communities":["`+strings.Join(to, `","`)+`"]}`)
	case kind == 6 && len(exporting) > 0:
		return p.exportTo(name, exporting, now)
	case kind == 7:
		return p.network(m, now)
	case kind == 8 && len(exporting) > 0:
		in, percent := exporting[p.IntN(len(exporting))], []int32{0, 34, 50}[p.IntN(3)]
		return previewStep{preview.Change{Share: &preview.ExportShare{Service: service, In: in.Spec.Name, Percent: percent}}, func() {
			if err := in.Annotate(p.ns, name, api.AnnotationShare, new(fmt.Sprint(percent))); err != nil {
				p.Errorf("annotate the ServiceExport %s of %s: %v", name, in.Spec.Name, err)
			}
		}}
	}
	region := []string{"north", "south", "west"}[p.IntN(3)]
	return p.patched(m, preview.Change{Place: &preview.Place{Cluster: m.Spec.Name, Zones: []string{"tianjin"}, Region: region}}, fmt.Sprintf(`{"zone":"tianjin","region":%q}`, region))
}

// patched is a change of a cluster's MemberCluster.
func (p *previewed) patched(m *fleettest.Member, change preview.Change, spec string) previewStep {
	return previewStep{change, func() { patchMember(p.Fleet, m.Spec.Name, `{"spec":`+spec+`}`) }}
}

// network puts a cluster into another network. Without externalCIDRs, no cluster of another one uses it.
// Once a cluster has externalCIDRs they stay, because the hub has only those of its external addresses that are inside (D93).
func (p *previewed) network(m *fleettest.Member, now *preview.State) previewStep {
	to := []string{"core", "edge", "-"}[p.IntN(3)]
	external := []string{"192.0.2.0/24"}
	if p.IntN(4) == 0 {
		external = []string{"198.51.100.0/24"}
	}
	if is := now.Member(m.Spec.Name).Spec.ExternalCIDRs; len(is) > 0 {
		external = is
	}
	return p.patched(m, preview.Change{Place: &preview.Place{Cluster: m.Spec.Name, Network: to, ExternalCIDRs: external}},
		fmt.Sprintf(`{"network":%q,"externalCIDRs":[%q]}`, strings.TrimPrefix(to, "-"), external[0]))
}

// exportTo changes which clusters a service is for.
func (p *previewed) exportTo(name string, exporting []*fleettest.Member, now *preview.State) previewStep {
	all := communities.Set{}
	for _, cluster := range now.Clusters() {
		all[cluster] = now.Member(cluster).Spec.Communities
	}
	names := all.Names()
	p.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	to := names[:1+p.IntN(3)]
	text := new(strings.Join(to, ", "))
	if p.IntN(4) == 0 {
		to, text = []string{"-"}, nil
	}
	return previewStep{preview.Change{Policy: &preview.Policy{Service: p.ns + "/" + name, ExportTo: to}}, func() {
		for _, m := range exporting {
			if err := m.Annotate(p.ns, name, api.AnnotationExportTo, text); err != nil {
				p.Errorf("annotate the ServiceExport %s of %s: %v", name, m.Spec.Name, err)
			}
		}
	}}
}

// exportOf returns the records that a member's exporter makes from a Service and its ServiceExport.
func (p *previewed) exportOf(m *fleettest.Member, name string, export *mcsv1beta1.ServiceExport) (exporter.Records, error) {
	src := exporter.Source{Cluster: m.Spec.Name, Key: types.NamespacedName{Namespace: p.ns, Name: name}, Service: &corev1.Service{}, Export: export}
	var endpoints discoveryv1.EndpointSliceList
	if err := errors.Join(m.Get(p.ns, name, src.Service), m.List(&endpoints, client.InNamespace(p.ns), client.MatchingLabels{discoveryv1.LabelServiceName: name})); err != nil {
		return exporter.Records{}, err
	}
	src.Slices = endpoints.Items
	exported, left, err := exporter.Exported(src, metav1.NewTime(time.Now()))
	return exported, errors.Join(err, left.ToAggregate())
}

// onHub returns nil if the hub has the services as the members export them now. A service may be withdrawn seconds after its ServiceExport
// (C8 of docs/spec/control-plane.md), and that may change no answer.
func (p *previewed) onHub() error {
	for _, m := range p.Members {
		for _, name := range previewNames {
			export, record := &mcsv1beta1.ServiceExport{}, &clustersetv1alpha1.ExportedService{}
			err := m.Get(p.ns, name, export)
			errHub := p.Hub.Get(api.MemberNamespace(m.Spec.Name), api.ExportedServiceName(p.ns, name), record)
			if apierrors.IsNotFound(err) && (apierrors.IsNotFound(errHub) || errHub == nil && !record.Exports()) {
				continue
			}
			if err := errors.Join(err, errHub); err != nil {
				return err
			}
			want, err := p.exportOf(m, name, export)
			if err != nil {
				return err
			}
			record.Spec.Revision, record.Spec.Endpoints, want.Service.Spec.Endpoints = 0, nil, nil // the hub has only those external ones that D93 admits
			if !equality.Semantic.DeepEqual(record.Spec, want.Service.Spec) {
				return fmt.Errorf("the hub has %+v, want %+v", record.Spec, want.Service.Spec)
			}
		}
	}
	return nil
}

// arrived returns the state of the hub, or an error if something that has changed hasn't arrived everywhere, such as what is cut in the reports.
func (p *previewed) arrived() (*preview.State, error) {
	if err := p.onHub(); err != nil {
		return nil, err
	}
	var objects []runtime.Object
	said := map[string]string{}
	for _, list := range []client.ObjectList{&clustersetv1alpha1.MemberClusterList{}, &clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}, &clustersetv1alpha1.MemberReportList{}} {
		if err := p.Hub.List(list); err != nil {
			return nil, err
		}
		for _, o := range random.ObjectsOf(list) {
			objects = append(objects, o)
			if r, ok := o.(*clustersetv1alpha1.MemberReport); ok && len(r.Spec.Unreachable) > 0 {
				cluster, _ := api.ClusterOfNamespace(r.Namespace)
				said[cluster] = strings.Join(r.Spec.Unreachable, ",")
			}
		}
	}
	if !maps.Equal(said, p.cut) {
		return nil, fmt.Errorf("the reports say that clusters can't reach %v, want %v", said, p.cut)
	}
	now := preview.NewState(objects)
	return now, p.is(now)
}

// step waits until all that has changed before has arrived, previews a change, makes it, and waits until every prediction is true.
func (p *previewed) step(pick func(now *preview.State) previewStep) {
	p.Helper()
	i := p.steps
	p.steps++
	var now *preview.State
	kube.Eventually(p, func() (err error) {
		now, err = p.arrived()
		return err
	})
	s := pick(now)
	then, _, err := now.Apply(s.Change)
	if err != nil {
		p.Fatalf("step %d: %v", i, err)
	}
	what := s.String()
	p.Logf("step %d: %s", i, what)
	s.do()
	kube.Eventually(p, func() error {
		_, err := p.arrived() // or what was predicted could be what is still there
		if err := errors.Join(err, p.is(then)); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, what, err)
		}
		return nil
	})
}

// is returns nil if every service looks, in every cluster, as the State predicts.
func (p *previewed) is(s *preview.State) error {
	var errs []error
	for _, client := range s.Places() {
		m := p.Member(client.Cluster)
		for _, name := range previewNames {
			key := types.NamespacedName{Namespace: p.ns, Name: name}
			want := s.Answers(key, client, preview.Options{})
			at := place.Place{Cluster: m.Spec.Name, Zone: m.Spec.Zone, Region: m.Spec.Region}
			if at == client {
				errs = append(errs, p.asked(m, fmt.Sprintf("%s.%s.svc.clusterset.local", name, p.ns), &want.DNS), p.asked(m, fmt.Sprintf("%s.%s.svc.global", name, p.ns), &want.Global))
			}
			objects, derived, err := importedObjects(m, p.ns, name)
			if err != nil {
				return err
			}
			got := preview.Imported(objects, key, client, preview.Options{})
			// In a cluster that is down, the endpoints stay as they are, because no agent there notices the change.
			if exists := want.ClusterSetIP != nil; derived != exists {
				errs = append(errs, fmt.Errorf("in %s, %s has a ClusterSetIP: %v, want %v", client, name, derived, exists))
			} else if a, b := behind(got.ClusterSetIP), behind(want.ClusterSetIP); a != b {
				errs = append(errs, fmt.Errorf("in %s, behind the ClusterSetIP of %s: %s, want %s", client, name, a, b))
			}
		}
	}
	return errors.Join(errs...)
}

// behind writes what is behind a ClusterSetIP. Without any slice, as where all exports are in other networks, there are none to say that it exists.
func behind(a *preview.Answer) string {
	if a == nil || len(a.Clusters) == 0 {
		return "nothing"
	}
	var clusters []string
	for _, c := range a.Clusters {
		clusters = append(clusters, fmt.Sprintf("%s:%d", c.Cluster, c.Ready))
	}
	return fmt.Sprintf("%v %v tier %q degraded %v", clusters, a.Addrs, a.Tier, a.Degraded)
}

// asked compares a DNS server's answer with the prediction.
func (p *previewed) asked(m *fleettest.Member, name string, want *preview.Answer) error {
	var answer []string
	for _, addr := range want.Addrs {
		answer = append(answer, addr.String())
	}
	switch {
	case want.ByClusterSetIP:
		i, err := m.Imported(p.ns, strings.SplitN(name, ".", 2)[0])
		if err != nil || i.Derived == nil {
			return fmt.Errorf("%s: %s has no derived Service, %w", m.Spec.Name, name, err)
		}
		answer = []string{i.Derived.Spec.ClusterIP}
	case want.Result != preview.NoError:
		answer = []string{string(want.Result)}
	}
	return m.DNS.Answers(name, "A", answer...)
}

// importedObjects returns the objects that tell a member where a service's endpoints are, and whether it has a ClusterSetIP there.
func importedObjects(m *fleettest.Member, ns, name string) (objects []runtime.Object, derived bool, err error) {
	i, err := m.Imported(ns, name)
	if err != nil {
		return nil, false, err
	}
	if i.ServiceImport != nil {
		objects = append(objects, i.ServiceImport)
	}
	if i.Global != nil {
		objects = append(objects, i.Global)
	}
	for j := range i.Slices {
		objects = append(objects, &i.Slices[j])
	}
	var members clustersetv1alpha1.MemberClusterList
	var reach clustersetv1alpha1.Reachability
	if err := errors.Join(m.List(&members), m.Get("", clustersetv1alpha1.ReachabilityName, &reach)); err != nil {
		return nil, false, err
	}
	for _, o := range random.ObjectsOf(&members) {
		objects = append(objects, o)
	}
	return append(objects, &reach), i.Derived != nil, nil
}
