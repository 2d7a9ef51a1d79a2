package connectivity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/page"
)

// world is two clusters in which everything works, until a fault changes that.
type world struct {
	all []*Facts
	// answer changes the answer to a question of a cluster.
	answer func(from string, a *Answer)
}

func (w *world) of(cluster string) *Facts {
	for _, f := range w.all {
		if f.Cluster == cluster {
			return f
		}
	}
	return nil
}

func working() *world {
	w := &world{answer: func(string, *Answer) {}}
	names := []string{"beijing", "shanghai"}
	for i, name := range names {
		f := &Facts{
			Cluster: name, Context: "ctx-" + name, Exports: map[string]Export{}, Imports: map[string]Import{},
			Server: Pod{Ready: true, Addresses: []string{fmt.Sprintf("10.%d.0.5", i+1), fmt.Sprintf("fd00:%d::5", i+1)}},
		}
		for _, exported := range []string{serviceOf(name), headlessOf(name)} {
			f.Exports[exported] = Export{Seen: true, Ready: true}
		}
		for j, other := range names {
			f.Imports[serviceOf(other)] = Import{Ready: true, IPs: []string{fmt.Sprintf("10.10%d.0.%d", i+1, j+1), fmt.Sprintf("fd00:10%d::%d", i+1, j+1)}}
			f.Imports[headlessOf(other)] = Import{Ready: true}
		}
		w.all = append(w.all, f)
	}
	return w
}

// ask lets every cluster with a server ask.
func (w *world) ask() {
	for _, f := range w.all {
		if !f.Server.Ready || f.Client.Why != "" {
			continue
		}
		for _, q := range asksFor(f, w.all, DefaultNamespace, "clusterset.local") {
			a := Answer{Ask: q, Outcome: Works, Addresses: []string{q.Address}}
			w.answer(f.Cluster, &a)
			f.Answers = append(f.Answers, a)
		}
	}
}

// fails makes questions fail: those of a cluster about another, empty for all.
func fails(from, to string, with Outcome, which ...Kind) func(string, *Answer) {
	return func(asking string, a *Answer) {
		for _, kind := range which {
			if (from == "" || asking == from) && (to == "" || a.To == to) && a.Kind == kind {
				a.Outcome = with
				switch with {
				case Unresolved:
					a.Error = "lookup in-shanghai.clusterset-test.svc.clusterset.local. on 10.96.0.10:53: no such host"
				case NoAnswer:
					a.At, a.Error = "192.0.2.7:8080", "refused"
				case WrongServer:
					a.At = "192.0.2.7:8080"
				}
			}
		}
	}
}

func withoutImports(w *world, at, of string) {
	delete(w.of(at).Imports, serviceOf(of))
	delete(w.of(at).Imports, headlessOf(of))
}

func TestVerdicts(t *testing.T) {
	connections := []Kind{ClusterSetIP, Headless, OwnName}
	names := []Kind{Name, Headless}
	var b strings.Builder
	for _, tc := range []struct {
		title string
		fault func(*world)
		green bool
	}{
		{"everything works", func(*world) {}, true},
		{"IPv4 alone in one cluster", func(w *world) {
			f := w.of("shanghai")
			f.Server.Addresses = f.Server.Addresses[:1]
		}, true},
		{"data path none", func(w *world) {
			for _, f := range w.all {
				for _, c := range w.all {
					f.Imports[serviceOf(c.Cluster)] = Import{Ready: true}
				}
			}
		}, true},
		{"data path clusterips: pods of other clusters don't answer, and needn't", func(w *world) {
			w.answer = func(from string, a *Answer) {
				if from != a.To {
					fails("", "", NoAnswer, Headless)(from, a)
				}
			}
		}, true},
		{"partition", func(w *world) {
			w.answer = func(from string, a *Answer) {
				if from != a.To {
					fails("", "", NoAnswer, connections...)(from, a)
				}
			}
		}, false},
		{"DNS isn't forwarded", func(w *world) { w.answer = fails("beijing", "", Unresolved, names...) }, false},
		{"the cluster DNS is down", func(w *world) { w.answer = fails("beijing", "", Unresolved, Name, Headless, OwnName) }, false},
		{"a DNS server that doesn't follow", func(w *world) {
			w.answer = func(from string, a *Answer) {
				fails("beijing", "shanghai", OtherAnswer, Name)(from, a)
				if a.Outcome == OtherAnswer {
					a.Addresses = []string{"10.101.0.99"}
				}
			}
		}, false},
		{"an agent that doesn't run", func(w *world) {
			w.of("shanghai").Exports = map[string]Export{}
			withoutImports(w, "beijing", "shanghai")
			withoutImports(w, "shanghai", "shanghai")
			withoutImports(w, "shanghai", "beijing")
		}, false},
		{"the hub is away", func(w *world) {
			w.of("shanghai").Exports[serviceOf("shanghai")] = Export{Seen: true, Message: "waiting for the hub"}
			withoutImports(w, "beijing", "shanghai")
		}, false},
		{"the namespace isn't imported", func(w *world) { withoutImports(w, "beijing", "shanghai") }, false},
		{"a headless import alone is missing", func(w *world) { delete(w.of("beijing").Imports, headlessOf("shanghai")) }, false},
		{"no ClusterSetIP", func(w *world) {
			w.of("beijing").Imports[serviceOf("shanghai")] = Import{Message: "waiting for the derived Service's addresses"}
		}, false},
		{"an image that isn't there", func(w *world) { w.of("shanghai").Server = Pod{Why: "ErrImagePull not found"} }, false},
		{"a client that doesn't end", func(w *world) { w.of("beijing").Client.Why = "ContainerCreating" }, false},
		{"an agent that is cut off from the hub, whose imports are half there", func(w *world) {
			f := w.of("beijing")
			f.Exports[serviceOf("beijing")] = Export{Seen: true, Message: "waiting for the hub"}
			w.answer = func(from string, a *Answer) {
				fails("beijing", "shanghai", NoAnswer, ClusterSetIP, OwnName)(from, a)
				fails("beijing", "shanghai", Unresolved, Headless)(from, a)
			}
		}, false},
		{"kube-proxy doesn't use our slices", func(w *world) { w.answer = fails("beijing", "shanghai", NoAnswer, ClusterSetIP) }, false},
		{"kube-proxy doesn't use terminating endpoints", func(w *world) { w.answer = fails("beijing", "shanghai", NoAnswer, OwnName) }, false},
		{"overlapping pod networks", func(w *world) { w.answer = fails("beijing", "shanghai", WrongServer, connections...) }, false},
		{"one family doesn't work", func(w *world) {
			w.answer = func(from string, a *Answer) {
				if a.Family == IPv6 && from != a.To {
					fails("", "", NoAnswer, connections...)(from, a)
				}
			}
		}, false},
	} {
		w := working()
		tc.fault(w)
		w.ask()
		report := Judge(w.all, DefaultNamespace, "clusterset.local")
		if green := len(report.Problems) == 0; green != tc.green {
			t.Errorf("%s: %d problems", tc.title, len(report.Problems))
		}
		fmt.Fprintf(&b, "# %s\n\n%s\n", tc.title, Render(report, false))
	}
	page.Fresh(t, "testdata/verdicts.txt", b.String())
}

// No question that fails may stay without a problem, other than pods that don't answer although the Service does (data path clusterips).
func TestEachFailureIsAProblem(t *testing.T) {
	for _, kind := range kinds {
		for _, outcome := range []Outcome{Unresolved, OtherAnswer, NoAnswer, WrongServer} {
			if kind == Headless && (outcome == NoAnswer || outcome == WrongServer) {
				continue
			}
			w := working()
			w.answer = fails("beijing", "shanghai", outcome, kind)
			w.ask()
			if r := Judge(w.all, DefaultNamespace, "clusterset.local"); len(r.Problems) != 2 { // one for each family
				t.Errorf("%s %s: %d problems, %v", kind, outcome, len(r.Problems), r.Problems)
			}
		}
	}
}
