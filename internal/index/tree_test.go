package index

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Compares the tree with a Go map: 20,000 random puts and deletes over 3,000 keys. Every old version stays unchanged.
func TestTreeEqualsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var now tree
	want := map[string]*Service{}
	var frozen tree
	frozenWant := map[string]*Service{}
	for i := range 20000 {
		key := fmt.Sprintf("s%d.ns%d", rng.IntN(300), rng.IntN(10))
		if rng.IntN(3) == 0 {
			now = now.del(ServiceKey(key))
			delete(want, key)
		} else {
			s := &Service{key: ServiceKey(key)}
			now = now.put(s)
			want[key] = s
		}
		if i == 10000 {
			frozen = now
			for k, v := range want {
				frozenWant[k] = v
			}
		}
	}
	compareTree(t, "now", now, want)
	compareTree(t, "frozen half-way", frozen, frozenWant)
	for key := range want {
		now = now.del(ServiceKey(key))
	}
	if now.root != nil || now.size != 0 {
		t.Errorf("emptied tree still has size %d", now.size)
	}
}

// Keys with equal hashes must still be distinguished. The test works on nodes, because such keys can't be found by searching.
func TestTreeHashCollision(t *testing.T) {
	const h = 0x0123456789abcdef
	var root *node
	services := map[string]*Service{}
	for i := range 5 {
		s := &Service{key: ServiceKey(fmt.Sprintf("s%d.ns", i))}
		services[string(s.key)] = s
		root, _ = root.put(s, h, maxShift)
	}
	for key, s := range services {
		if root.find(key) != s {
			t.Errorf("find(%s) misses", key)
		}
	}
	if root.find("other.ns") != nil {
		t.Error("find(other.ns): want nil")
	}
	for key := range services {
		var gone bool
		if root, gone = root.del(ServiceKey(key), h, maxShift); !gone {
			t.Errorf("del(%s): not found", key)
		}
	}
	if root != nil {
		t.Error("node not empty after all deletes")
	}
}

func compareTree(t *testing.T, name string, got tree, want map[string]*Service) {
	t.Helper()
	if got.size != len(want) {
		t.Errorf("%s: size %d, want %d", name, got.size, len(want))
	}
	for key, s := range want {
		if got.get(key) != s {
			t.Errorf("%s: get(%s) differs", name, key)
		}
	}
	n := 0
	got.root.all(func(s *Service) bool {
		n++
		if want[string(s.key)] != s {
			t.Errorf("%s: all yields %s, which is not there", name, s.key)
		}
		return true
	})
	if n != len(want) {
		t.Errorf("%s: all yields %d, want %d", name, n, len(want))
	}
	if got.get("absent.ns") != nil {
		t.Errorf("%s: get(absent.ns): want nil", name)
	}
}
