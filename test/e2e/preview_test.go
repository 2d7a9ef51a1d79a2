package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

const previewSteps = 16

// TestPreviewComesTrue previews random changes of random services and clusters, makes each change, and compares every answer in every
// cluster with the prediction: the DNS answers for both names, and the endpoints that the cluster's own EndpointSlices put
// behind the ClusterSetIP.
func TestPreviewComesTrue(t *testing.T) {
	seed, _ := random.Seeds(t)
	f := outages(t)
	p := &previewed{Fleet: f, ns: f.Namespace("preview"), Rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // repeatable on purpose
	t.Cleanup(func() {
		for _, m := range f.Members {
			p.patch(m.Spec.Name, fmt.Sprintf(`{"spec":{"drain":false,"zone":%q,"zones":null,"region":%q,"communities":null,"network":null,"externalCIDRs":null}}`, m.Spec.Zone, m.Spec.Region))
		}
	})
	p.begin()
	for i := range previewSteps {
		p.step(i, p.pick(i))
	}
	// The hub process must first see the cluster as Expired, which takes some time.
	f.Hub.Restart("--suspect-after", "4s", "--expire-after", "8s")
	f.Settle()
	victim := f.Members[p.IntN(len(f.Members))]
	p.step(previewSteps, previewStep{preview.Change{Down: []string{victim.Spec.Name}}, victim.KillAgent})
}

// previewed is a fleet with the services whose changes are previewed.
type previewed struct {
	*fleettest.Fleet
	*rand.Rand
	ns string
}

// previewStep is a change and the function that makes it.
type previewStep struct {
	change preview.Change
	do     func()
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
			m.Apply(service(p.ns, name, spec), slice(p.ns, name, "1", "IPv4", port8080, endpoints...))
			if p.IntN(3) > 0 {
				m.Apply(export(p.ns, name, ""))
			}
		}
	}
}

// exporters returns the clusters that export a service, and the others.
func (p *previewed) exporters(name string) (exporting, others []*fleettest.Member) {
	for _, m := range p.Members {
		var e clustersetv1alpha1.ExportedServiceList
		if err := p.Hub.List(&e, client.InNamespace("clusterset-member-"+m.Spec.Name), client.MatchingFields{"metadata.name": name + "." + p.ns}); err != nil {
			p.Fatal(err)
		}
		if len(e.Items) > 0 {
			exporting = append(exporting, m)
		} else {
			others = append(others, m)
		}
	}
	return exporting, others
}

// pick returns a random change. Its kind depends on i. If that kind isn't possible now, a cluster gets another zone and region
// instead.
func (p *previewed) pick(i int) previewStep {
	m := p.Members[p.IntN(len(p.Members))]
	name := previewNames[p.IntN(len(previewNames))]
	service := p.ns + "/" + name
	exporting, others := p.exporters(name)
	switch kind := i % 9; {
	case kind == 0:
		return previewStep{preview.Change{Drain: []string{m.Spec.Name}}, func() { p.patch(m.Spec.Name, `{"spec":{"drain":true}}`) }}
	case kind == 1:
		return previewStep{preview.Change{Undrain: []string{m.Spec.Name}}, func() { p.patch(m.Spec.Name, `{"spec":{"drain":false}}`) }}
	case kind == 2 && len(exporting) > 0:
		from := exporting[p.IntN(len(exporting))]
		return previewStep{preview.Change{Unexport: &preview.Export{Service: service, From: from.Spec.Name}}, func() {
			from.Remove(export(p.ns, name, ""))
		}}
	case kind == 3 && len(others) > 0:
		from := others[p.IntN(len(others))]
		return previewStep{preview.Change{Export: &preview.Export{Service: service, From: from.Spec.Name, Records: p.records(from, name)}}, func() {
			from.Apply(export(p.ns, name, ""))
		}}
	case kind == 4 && len(exporting) > 0:
		stated := &preview.Policy{Service: service, ServicePolicy: clustersetv1alpha1.ServicePolicy{Prefer: []string{"none", "region", "cluster zone"}[p.IntN(3)], MinReady: int32(1 + p.IntN(4))}}
		return previewStep{preview.Change{Policy: stated}, func() {
			for _, m := range exporting {
				m.Apply(exportWith(p.ns, name, fmt.Sprintf("clusterset.dev/prefer: %q, clusterset.dev/min-ready: %q", stated.Prefer, fmt.Sprint(stated.MinReady))))
			}
		}}
	case kind == 5:
		return p.move(m)
	case kind == 6 && len(exporting) > 0:
		return p.exportTo(name, exporting)
	case kind == 7:
		return p.network(m)
	}
	region := []string{"north", "south", "west"}[p.IntN(3)]
	return previewStep{preview.Change{Place: &preview.Move{Cluster: m.Spec.Name, Zones: []string{"tianjin"}, Region: region}}, func() {
		p.patch(m.Spec.Name, fmt.Sprintf(`{"spec":{"zone":"tianjin","region":%q}}`, region))
	}}
}

// move puts a cluster into other communities. A cluster in no community counts as in default, so the two see each other only if the
// moved cluster is in default, too.
func (p *previewed) move(m *fleettest.Member) previewStep {
	to := [][]string{{"north"}, {"south"}, {"default", "north"}, {"north", "south"}}[p.IntN(4)]
	return previewStep{preview.Change{Communities: &preview.Communities{Cluster: m.Spec.Name, To: to}}, func() {
		p.patch(m.Spec.Name, `{"spec":{"communities":["`+strings.Join(to, `","`)+`"]}}`)
	}}
}

// network puts a cluster into another network. Without externalCIDRs, no cluster of another one uses it.
func (p *previewed) network(m *fleettest.Member) previewStep {
	to := []string{"core", "edge", "-"}[p.IntN(3)]
	external := []string{"192.0.2.0/24"}
	if p.IntN(4) == 0 {
		external = []string{"198.51.100.0/24"}
	}
	return previewStep{preview.Change{Network: &preview.Network{Cluster: m.Spec.Name, To: to, ExternalCIDRs: external}}, func() {
		p.patch(m.Spec.Name, fmt.Sprintf(`{"spec":{"network":%q,"externalCIDRs":[%q]}}`, strings.TrimPrefix(to, "-"), external[0]))
	}}
}

// exportTo changes which clusters a service is for, in one of its exporting clusters or in all of them.
func (p *previewed) exportTo(name string, exporting []*fleettest.Member) previewStep {
	names := []string{"beijing", "tianjin", "shanghai", "north", "default", "nobody"}
	p.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	to, from := names[:1+p.IntN(3)], ""
	text := new(strings.Join(to, ", "))
	if p.IntN(4) == 0 {
		to, text = []string{"-"}, nil
	}
	if p.IntN(2) == 0 {
		p.Shuffle(len(exporting), func(i, j int) { exporting[i], exporting[j] = exporting[j], exporting[i] })
		exporting = exporting[:1]
		from = exporting[0].Spec.Name
	}
	return previewStep{preview.Change{ExportTo: &preview.ExportTo{Service: p.ns + "/" + name, From: from, To: to}}, func() {
		for _, m := range exporting {
			if err := m.ExportTo(p.ns, name, text); err != nil {
				p.Errorf("annotate the ServiceExport %s of %s: %v", name, m.Spec.Name, err)
			}
		}
	}}
}

// records returns the records that a member's exporter makes from a Service.
func (p *previewed) records(m *fleettest.Member, name string) *preview.Records {
	src := exporter.Source{Cluster: m.Spec.Name, Key: types.NamespacedName{Namespace: p.ns, Name: name}, Service: &corev1.Service{}}
	var endpoints discoveryv1.EndpointSliceList
	if err := errors.Join(m.Get(p.ns, name, src.Service), m.List(&endpoints, client.InNamespace(p.ns), client.MatchingLabels{discoveryv1.LabelServiceName: name})); err != nil {
		p.Fatal(err)
	}
	src.Slices = endpoints.Items
	exported, left, err := exporter.Exported(src, metav1.NewTime(time.Now()))
	if err != nil || len(left) > 0 {
		p.Fatal(err, left)
	}
	r := &preview.Records{Service: exported.Service}
	for i := range exported.Endpoints {
		r.Endpoints = append(r.Endpoints, &exported.Endpoints[i])
	}
	return r
}

func (p *previewed) patch(cluster, patch string) {
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = cluster
	if err := p.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		p.Errorf("patch MemberCluster %s: %v", cluster, err)
	}
}

// state reads the hub's MemberClusters and records.
func (p *previewed) state() (*preview.State, error) {
	var objects []runtime.Object
	for _, list := range []client.ObjectList{&clustersetv1alpha1.MemberClusterList{}, &clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
		if err := p.Hub.List(list); err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		objects = append(objects, items...)
	}
	return preview.NewState(objects), nil
}

// step previews a change, makes it, and waits until every prediction is true.
func (p *previewed) step(i int, s previewStep) {
	p.Helper()
	var now *preview.State
	kube.Eventually(p, func() (err error) { // wait until the previous change has arrived everywhere
		if now, err = p.state(); err != nil {
			return err
		}
		return p.is(now)
	})
	then, _, err := now.Apply(s.change)
	if err != nil {
		p.Fatalf("step %d: %v", i, err)
	}
	p.command(now, s.change)
	p.Logf("step %d: %s", i, &s.change)
	s.do()
	kube.Eventually(p, func() error {
		if err := p.is(then); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, &s.change, err)
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
			want, err := s.Answers(p.ns+"/"+name, client, preview.Options{Addresses: true})
			if err != nil {
				return err
			}
			at := place.Place{Cluster: m.Spec.Name, Zone: m.Spec.Zone, Region: m.Spec.Region}
			if at == client {
				errs = append(errs, p.asked(m, fmt.Sprintf("%s.%s.svc.clusterset.local", name, p.ns), &want.DNS), p.asked(m, fmt.Sprintf("%s.%s.svc.global", name, p.ns), &want.Global))
			}
			objects, err := importedObjects(m, p.ns, name)
			if err != nil {
				return err
			}
			got, err := preview.Imported(objects, p.ns+"/"+name, client, preview.Options{Addresses: true})
			if err != nil {
				return err
			}
			// In a cluster that is down, the endpoints stay as they are, because no agent there notices the change.
			if a, b := behind(got.ClusterSetIP), behind(want.ClusterSetIP); a != b {
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
	return fmt.Sprintf("%v %v tier %q degraded %v", clusters, a.Addresses, a.Tier, a.Degraded)
}

// asked compares a DNS server's answer with the prediction.
func (p *previewed) asked(m *fleettest.Member, name string, want *preview.Answer) error {
	answer := want.Addresses
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

// importedObjects returns the objects that tell a member where a service's endpoints are.
func importedObjects(m *fleettest.Member, ns, name string) (objects []runtime.Object, err error) {
	i, err := m.Imported(ns, name)
	if err != nil {
		return nil, err
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
	if err := m.List(&members); err != nil {
		return nil, err
	}
	for j := range members.Items {
		objects = append(objects, &members.Items[j])
	}
	return objects, nil
}

// command checks that clusterset preview gives the same result.
func (p *previewed) command(now *preview.State, change preview.Change) {
	p.Helper()
	file := filepath.Join(p.TempDir(), "changes.yaml")
	content, err := yaml.Marshal([]preview.Change{change})
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		p.Fatal(err)
	}
	var services []types.NamespacedName
	args := []string{"preview", "--hub-kubeconfig", p.Hub.Plane.Kubeconfig(), "--file", file, "-o", "json"}
	for _, name := range previewNames {
		key := types.NamespacedName{Namespace: p.ns, Name: name}
		if slices.Contains(now.Services(), key) || change.Export != nil && change.Export.Service == key.String() {
			services = append(services, key)
			args = append(args, "--for", key.String())
			continue
		}
		// No cluster exports it, and the change doesn't export it either: to ask for it is a mistake.
		if _, err := now.Preview(p.Context(), []preview.Change{change}, preview.Options{Services: []types.NamespacedName{key}}); err == nil {
			p.Errorf("%s: preview answers for %s, which no cluster exports", &change, key)
		}
	}
	if change.Export != nil {
		args = append(args, "--kubeconfig", p.Member(change.Export.From).Plane.Kubeconfig())
	}
	result, err := now.Preview(p.Context(), []preview.Change{change}, preview.Options{Services: services})
	if err != nil {
		p.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(p.Context(), fleettest.Binaries().Clusterset, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	code := 0
	if result.Loses() {
		code = 3
	}
	_ = cmd.Run()
	var said preview.Result
	if err := json.Unmarshal(out.Bytes(), &said); err != nil || cmd.ProcessState.ExitCode() != code {
		p.Fatalf("clusterset %s: exit code %d, want %d, %v: %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), code, err, stderr.String())
	}
	text, err := json.Marshal(result)
	if err != nil {
		p.Fatal(err)
	}
	var want preview.Result
	if err := json.Unmarshal(text, &want); err != nil {
		p.Fatal(err)
	}
	for _, r := range []*preview.Result{&said, &want} {
		for i := range r.Services {
			for j := range r.Services[i].Conflicts {
				r.Services[i].Conflicts[j].Message = "" // it contains the creation time of an export that doesn't exist yet
			}
		}
	}
	if !reflect.DeepEqual(said, want) {
		p.Errorf("%s: the command shows\n%s\nwant\n%s", &change, out.String(), text)
	}
}
