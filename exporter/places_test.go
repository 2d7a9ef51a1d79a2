package exporter

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Whatever the order of changes, a namespace has as many exports as it may and wants, none loses its place to another, and a free place is
// offered to one that waits. Rule C60 of docs/spec/control-plane.md.
func TestPlacesOfANamespace(t *testing.T) {
	const most, services = 5, 12
	key := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: fmt.Sprintf("ns%d", i%2), Name: fmt.Sprintf("s%d", i)}
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		p := &places{most: most}
		p.seed(nil)
		wants, has := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		var ask func(k types.NamespacedName)
		ask = func(k types.NamespacedName) { // as the reconciler does
			if wants[k] {
				got := p.take(k)
				if has[k] && !got {
					t.Fatalf("seed %d: %s loses its place", seed, k)
				}
				has[k] = got
				return
			}
			delete(has, k)
			if p.leave(k) {
				for i := range 2 * services { // those of its namespace are reconciled
					if k := key(i); wants[k] {
						ask(k)
					}
				}
			}
		}
		for range 300 {
			k := key(random.IntN(2 * services))
			wants[k] = random.IntN(2) == 0
			if random.IntN(4) > 0 { // otherwise it is reconciled later
				ask(k)
			}
		}
		for i := range 2 * services {
			ask(key(i))
		}
		want, got := map[string]int{}, map[string]int{}
		for k := range wants {
			if wants[k] {
				want[k.Namespace]++
			}
			if has[k] {
				got[k.Namespace]++
			}
		}
		for ns := range want {
			if got[ns] != min(want[ns], most) {
				t.Errorf("seed %d: %s has %d exports, wants %d, may have %d", seed, ns, got[ns], want[ns], most)
			}
		}
		clear(wants)
		for i := range 2 * services {
			ask(key(i))
		}
		if len(p.of) > 0 {
			t.Errorf("seed %d: %d namespaces are remembered without exports", seed, len(p.of))
		}
	}
}

// Nobody gets a place before all are given to those that are first. Rule C60 of docs/spec/control-plane.md.
func TestPlacesAreGivenAtOnce(t *testing.T) {
	const most = 1000
	var first []types.NamespacedName
	for i := range most {
		first = append(first, types.NamespacedName{Namespace: "shop", Name: fmt.Sprint(i)})
	}
	p := &places{most: most}
	taken := make(chan bool)
	go func() {
		for !p.seeded() {
			runtime.Gosched()
		}
		taken <- p.take(types.NamespacedName{Namespace: "shop", Name: "last"})
	}()
	p.seed(first)
	if <-taken {
		t.Error("the last one took a place of the first")
	}
}
