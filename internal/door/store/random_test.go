package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/api"
)

// Whatever happens to the hub and the selection, in the end the store has what the hub has, and told each service that differs.
func TestRandomly(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
			pick := func(of ...string) string { return of[random.IntN(len(of))] }
			s := newScript(t, seed%2 == 0)
			s.begin()
			run := func(line string) {
				words := strings.Fields(line)
				if err := s.run(words[0], words[1:]); err != nil {
					t.Fatalf("seed %d: %s: %v", seed, line, err)
				}
			}
			peers := "*"
			told := map[string]string{}
			run("peers *")
			for step := range 300 {
				path := pick("a", "b", "c", "d") + "/" + pick("shop", "bank") + "/" + pick("web", "db")
				switch random.IntN(15) {
				case 0, 1, 2, 3:
					run(fmt.Sprint("put ", 1+random.IntN(3), " ", path))
				case 4, 5:
					run("slice " + pick("s1", "s2") + " " + pick("10.0.0.1", "10.0.0.1,10.0.0.2") + " " + path)
				case 6, 7:
					run("gone " + path + pick("", "/s1", "/s2"))
				case 8:
					run("cut")
				case 9:
					run("compact")
				case 10:
					run(pick("forbid b", "silence b", "hold", "break", "fail refused", "fail 503", "fail busy"))
				case 11:
					run("heal")
				case 12:
					peers = pick("*", "a", "a b", "a b c", "a c d")
					run("peers " + peers)
				case 13:
					run("relist")
				}
				run(fmt.Sprintf("wait %dms", random.IntN(2000)))
				if step%50 < 49 {
					continue
				}
				run("heal")
				elapse(time.Minute)
				if got, want := s.has(), s.hub.selected(peers); !slices.Equal(got, want) || !s.HasSynced() {
					t.Fatalf("seed %d, step %d: peers %s:\n has %v\nwant %v", seed, step, peers, got, want)
				}
				s.expectTold(fmt.Sprintf("seed %d, step %d", seed, step), told)
			}
		})
	}
}

// expectTold compares with what there was at the last call.
func (s *script) expectTold(what string, was map[string]string) {
	s.t.Helper()
	is, told := map[string]string{}, s.take(&s.records)
	for _, text := range s.has() {
		is[text[:strings.IndexAny(text, "@+")]] = text
	}
	for _, now := range []map[string]string{was, is} {
		for service := range now {
			if was[service] != is[service] && !slices.Contains(told, service) {
				s.t.Errorf("%s: %q is now %q, and nobody was told", what, was[service], is[service])
			}
		}
	}
	clear(was)
	for service, text := range is {
		was[service] = text
	}
}

// selected returns what a selection has, as script.has does.
func (h *fakeHub) selected(peers string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := New(nil, Options{})
	for at, object := range h.objects {
		cluster, ok := api.ClusterOfNamespace(at.namespace)
		if ok && (peers == "*" || strings.Contains(peers, cluster)) {
			of.cluster(cluster).set(at.kind, at.name, recordOf(object))
		}
	}
	return (&script{Store: of}).has()
}
