package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/rank"
)

// state sets an annotation of a cluster's ServiceExport.
func (s *service) state(cluster, key, value string) {
	s.Helper()
	e := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceExport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := s.w.cluster(cluster).Client.Patch(s.Context(), e, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

// shared waits until connections from a cluster, of either family, are answered by the pods of each cluster that are within its share.
func (s *service) shared(from string, shares map[string]int) {
	s.Helper()
	for _, v6 := range []bool{false, true} {
		var want pods
		for cluster, percent := range shares {
			of := slices.DeleteFunc(slices.Clone(s.all), func(p *pod) bool { return p.node.cluster.Name != cluster })
			var addrs []netip.Addr
			for _, p := range of {
				addrs = append(addrs, p.address(v6))
			}
			spare := rank.Spare(percent, addrs)
			want = append(want, slices.DeleteFunc(of, func(p *pod) bool { return spare[p.address(v6)] })...)
		}
		s.answeredBy(way{from: s.w.cluster(from).nodes, network: map[bool]string{false: "tcp4", true: "tcp6"}[v6], port: 80}, want...)
	}
}

// Half of a cluster's pods take all of its zone's clients, and none if the share is 0, unless there is nothing else. The clients of other clusters aren't
// moved. Rules A80 of docs/spec/answers.md and D3 of docs/spec/data-path.md.
func TestShareInZones(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 4), s.pods("chaoyang", 1), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.state("xicheng", api.AnnotationShare, "50")
	s.shared("xicheng", map[string]int{"xicheng": 50})
	s.answered("minhang", minhang...)
	s.state("xicheng", api.AnnotationShare, "0")
	s.answered("xicheng", chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answered("xicheng", minhang...)
	minhang.ready(false)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.answered("minhang", xicheng...)
	chaoyang.ready(true)
	s.publish()
	s.state("xicheng", api.AnnotationShare, "100")
	s.answered("xicheng", xicheng...)
	s.answered("chaoyang", chaoyang...)
}

// The steps of docs/recipes/move-a-service.md, there and back, with clients in the old cluster, in the new one and elsewhere.
func TestMoveAService(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng")
	s.pods("xicheng", 3)
	s.pods("minhang", 4)
	s.state("xicheng", api.AnnotationPrefer, "none")
	s.export(export{annotations: `clusterset.dev/prefer: none, clusterset.dev/share: "0"`}, "minhang")
	s.publish()
	shares := map[string]int{"xicheng": 100, "minhang": 0}
	type step struct {
		cluster string
		share   int
	}
	there := []step{{"minhang", 10}, {"minhang", 50}, {"minhang", 100}, {"xicheng", 50}, {"xicheng", 0}}
	for _, step := range append(there, step{"xicheng", 50}, step{"xicheng", 100}, step{"minhang", 50}, step{"minhang", 0}) {
		s.state(step.cluster, api.AnnotationShare, strconv.Itoa(step.share))
		shares[step.cluster] = step.share
		for _, from := range []string{"xicheng", "chaoyang", "minhang"} {
			s.shared(from, shares)
		}
	}
}
