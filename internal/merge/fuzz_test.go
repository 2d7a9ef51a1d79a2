package merge_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

// FuzzResolve generates exports from few values, so that they conflict in many ways, and checks the invariants of the result.
func FuzzResolve(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed, uint8(seed%7))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		records := make([]*clustersetv1alpha1.ExportedService, n%9+1)
		for i := range records {
			records[i] = randomRecord(rng, fmt.Sprintf("c%d", i))
		}
		exports, _ := merge.Exports(compact(records...), nil)
		r := merge.Resolve(exports)

		shuffled := slices.Clone(exports)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := merge.Resolve(shuffled); !reflect.DeepEqual(r, again) {
			t.Errorf("order matters:\n%+v\n%+v", r, again)
		}
		checkPorts(t, exports, r)
		checkOlder(t, exports, r)
		checkIdempotence(t, exports, r)
		if (len(r.Conflicts) == 0) != (r.ConflictCondition().Status == "False") {
			t.Errorf("condition %v with conflicts %v", r.ConflictCondition(), r.Conflicts)
		}
		for _, c := range r.Conflicts {
			if len(c.Clusters) == 0 || slices.Contains(c.Clusters, r.Winner) || c.Want == c.Got {
				t.Errorf("conflict %+v of winner %s", c, r.Winner)
			}
		}
	})
}

func checkPorts(t *testing.T, exports []merge.Export, r merge.Resolved) {
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, p := range r.Ports {
		number := fmt.Sprint(p.Protocol, p.Port)
		if names[p.Name] || numbers[number] {
			t.Errorf("two ports of name %q or number %s: %s", p.Name, number, portText(r.Ports))
		}
		names[p.Name], numbers[number] = true, true
		if p.Name == "" {
			t.Errorf("a nameless port: %s", portText(r.Ports))
		}
		var exposing []string
		for _, e := range exports {
			if slices.ContainsFunc(e.Spec.Ports, func(o clustersetv1alpha1.ServicePort) bool {
				return o.Name == p.ExportedName && o.Protocol == p.Protocol && o.Port == p.Port
			}) {
				exposing = append(exposing, e.Cluster)
			}
		}
		if !slices.Equal(p.Clusters, exposing) || len(exposing) == 0 {
			t.Errorf("port %s is exposed by %v", portText([]merge.Port{p}), exposing)
		}
	}
	for _, e := range exports {
		for _, o := range e.Spec.Ports {
			if !slices.ContainsFunc(r.Ports, func(p merge.Port) bool {
				return p.ExportedName == o.Name || p.Name == o.Name || p.Protocol == o.Protocol && p.Port == o.Port
			}) {
				t.Errorf("port %+v of %s is neither in the union nor in conflict with it: %s", o, e.Cluster, portText(r.Ports))
			}
		}
	}
}

// checkOlder leaves the youngest export out. It must not have changed anything for the others: rules C14 and C15 of
// docs/spec/control-plane.md.
func checkOlder(t *testing.T, exports []merge.Export, r merge.Resolved) {
	youngest := slices.MaxFunc(exports, func(a, b merge.Export) int {
		return cmp.Or(a.Spec.ExportedAt.Compare(b.Spec.ExportedAt.Time), cmp.Compare(a.Cluster, b.Cluster))
	})
	without := merge.Resolve(slices.DeleteFunc(slices.Clone(exports), func(e merge.Export) bool { return e.Cluster == youngest.Cluster }))
	if len(without.IPFamilies) > 0 && !slices.Equal(r.IPFamilies, without.IPFamilies) {
		t.Errorf("%s changes the families from %v to %v", youngest.Cluster, without.IPFamilies, r.IPFamilies)
	}
	for i, p := range without.Ports {
		now := r.Ports[i]
		now.Clusters = slices.DeleteFunc(slices.Clone(now.Clusters), func(c string) bool { return c == youngest.Cluster })
		if !reflect.DeepEqual(now, p) {
			t.Errorf("%s changes the port %+v to %+v", youngest.Cluster, p, r.Ports[i])
		}
	}
}

// checkIdempotence uses the result as the winner's only export. Merging it must not change it.
func checkIdempotence(t *testing.T, exports []merge.Export, r merge.Resolved) {
	i := slices.IndexFunc(exports, func(e merge.Export) bool { return e.Cluster == r.Winner })
	spec := exports[i].Spec.DeepCopy()
	spec.IPFamilies, spec.Ports = r.IPFamilies, nil
	for _, p := range r.Ports {
		spec.Ports = append(spec.Ports, clustersetv1alpha1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, Port: p.Port, AppProtocol: p.AppProtocol,
		})
	}
	again := merge.Resolve([]merge.Export{{Export: &door.Export{Cluster: r.Winner, Spec: spec}}})
	if len(again.Conflicts) != 0 {
		t.Errorf("an export alone has conflicts: %v", again.Conflicts)
	}
	want := r
	want.Clusters, want.Conflicts, want.Ports = []string{r.Winner}, nil, slices.Clone(r.Ports)
	for i := range want.Ports {
		want.Ports[i].Clusters, want.Ports[i].ExportedName = []string{r.Winner}, want.Ports[i].Name
	}
	if !reflect.DeepEqual(again, want) {
		t.Errorf("resolved again it is\n%+v\nwant\n%+v", again, want)
	}
}

func randomRecord(rng *rand.Rand, cluster string) *clustersetv1alpha1.ExportedService {
	pick := func(n int) int { return rng.IntN(n) }
	return record(cluster, pick(3), func(s *clustersetv1alpha1.ExportedServiceSpec) {
		if pick(3) == 0 {
			headless(s)
		}
		s.Ports = nil
		for range pick(5) {
			s.Ports = append(s.Ports, clustersetv1alpha1.ServicePort{
				Name:     []string{"", "a", "b", "tcp-80"}[pick(4)],
				Protocol: []corev1.Protocol{"", corev1.ProtocolUDP, "bogus"}[pick(3)],
				Port:     []int32{80, 81, 82, 0}[pick(4)],
			})
		}
		s.IPFamilies = [][]corev1.IPFamily{nil, {v4}, {v6}, {v4, v6}, {v6, v4}}[pick(5)]
		affinity([]corev1.ServiceAffinity{"", "None", "ClientIP"}[pick(3)], []int32{0, 60, 10800}[pick(3)])(s)
		s.ExportedLabels = []map[string]string{nil, {}, {"a": "1"}, {"a": "2"}}[pick(4)]
		s.ExportedAnnotations = []map[string]string{nil, {"n": "1"}}[pick(2)]
		prefer := "PreferClose"
		s.TrafficDistribution = []*string{nil, &prefer}[pick(2)]
		if pick(2) == 0 {
			policy([]string{"", "none", "zone", "bogus"}[pick(4)], []string{"", "zone", "planet"}[pick(3)], int32(pick(4)-1))(s)
		}
	})
}
