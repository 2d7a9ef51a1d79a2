package prober

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
)

// world is a set of clusters, as cluster a sees it, in virtual time.
type world struct {
	t         *testing.T
	here, hub client.Client

	mu      sync.Mutex
	at      map[string]string // which cluster answers at an address
	cut     map[string]bool   // addresses that don't answer
	slow    time.Duration
	hubAway bool
	dials   int
	open    int
	most    int
	writes  int
	seen    map[string]bool
}

func newWorld(t *testing.T, clusters ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), clustersetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, at: map[string]string{}, cut: map[string]bool{}, slow: 5 * time.Millisecond, seen: map[string]bool{}}
	w.hub = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.hubAway {
				return errors.New("the hub is away")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	w.here = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.wrote(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			w.wrote(o)
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	w.member("a", "10.0.0.0/16")
	for i, name := range clusters {
		w.member(name, fmt.Sprintf("10.%d.0.0/16", i+1))
		w.beacons(name, fmt.Sprintf("10.%d.0.1:9471", i+1))
	}
	return w
}

func (w *world) wrote(o client.Object) {
	if _, ok := o.(*clustersetv1alpha1.Reachability); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes++
	}
}

func (w *world) member(name, cidr string) {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.CIDRs = []string{cidr}
	if err := w.here.Create(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// beacons makes a cluster's agents answer at these addresses only, and state them in its Lease.
func (w *world) beacons(cluster string, addresses ...string) {
	w.mu.Lock()
	for a, c := range w.at {
		if c == cluster {
			delete(w.at, a)
		}
	}
	for _, a := range addresses {
		w.at[a] = cluster
	}
	w.mu.Unlock()
	// As one write, like an agent's: a prober that looked between two would see a cluster without beacons.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}}
	write := w.hub.Create
	if err := w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(lease), lease); err == nil {
		write = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
			return w.hub.Update(ctx, o)
		}
	}
	lease.Annotations = map[string]string{api.AnnotationBeacons: strings.Join(addresses, ",")}
	if err := write(w.t.Context(), lease); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dial(ctx context.Context, at netip.AddrPort, cluster string) (time.Duration, error) {
	w.mu.Lock()
	w.dials++
	w.open++
	w.most = max(w.most, w.open)
	w.seen[at.String()] = true
	is, cut, slow := w.at[at.String()], w.cut[at.String()], w.slow
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	}()
	if cut || is == "" {
		slow = 3 * time.Second
	}
	select {
	case <-ctx.Done():
		return 0, beacon.ErrNoAnswer
	case <-time.After(slow):
	}
	switch {
	case cut || is == "":
		return 0, beacon.ErrNoAnswer
	case is != cluster:
		return 0, beacon.ErrWrongCluster
	}
	return slow, nil
}

// start starts a prober; stop stops it, as its process would end.
func (w *world) start(more ...func(*Options)) (p *Prober, stop func()) {
	o := Options{
		Cluster: "a", Here: w.here, Live: w.here, Hub: w.hub, Writer: w.here, Dial: w.dial,
		Avoid: func(context.Context) []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.1.0.99")} },
	}
	for _, f := range more {
		f(&o)
	}
	p = New(o)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Start(ctx)
	}()
	return p, func() { cancel(); <-ended }
}

func (w *world) stored() *clustersetv1alpha1.Reachability {
	o := &clustersetv1alpha1.Reachability{}
	_ = w.here.Get(w.t.Context(), key, o)
	return o
}

// are compares what is stored with a text such as "b True Answers, c Unknown NoBeacon".
func (w *world) are(want string) {
	w.t.Helper()
	var all []string
	for _, c := range w.stored().Clusters {
		all = append(all, fmt.Sprintf("%s %s %s", c.Name, c.Reachable, c.Reason))
	}
	if got := strings.Join(all, ", "); got != want {
		w.t.Errorf("%s: %q, want %q", time.Now().Format("15:04:05.0"), got, want)
	}
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func TestVerdictsAreStoredAndPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		p, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		w.are("b True Answers, c True Answers, d True Answers")
		if got := w.stored().Clusters[0]; !got.Reached || got.RoundTripMicroseconds != 5000 || !slices.Equal(got.Beacons, []string{"10.1.0.1:9471"}) {
			t.Errorf("%+v", got)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		began := time.Now()
		if e := <-p.Changed(); e.Object.GetName() != "b" || !p.Unreachable("b") || p.Unreachable("c") {
			t.Errorf("%s changed", e.Object.GetName())
		}
		if took := time.Since(began); took > 5500*time.Millisecond {
			t.Errorf("unreachable after %s", took)
		}
		synctest.Wait()
		w.are("b False NoAnswer, c True Answers, d True Answers")
		if notes := p.Notes(); notes[api.AnnotationUnreachable] != "b" || notes[api.AnnotationUnmeasured] != "" {
			t.Errorf("%v", notes)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = false })
		if e := <-p.Changed(); e.Object.GetName() != "b" || p.Unreachable("b") {
			t.Errorf("%s changed", e.Object.GetName())
		}
	})
}

// Rule D51 of docs/spec/data-path.md: nothing is written while nothing changes but a stamp every three minutes.
func TestQuietSetWritesStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.set(func() { w.writes = 0 })
		stamp := w.stored().Stamp
		elapse(time.Hour)
		w.set(func() {
			if w.writes != 20 {
				t.Errorf("%d writes in an hour", w.writes)
			}
		})
		if w.stored().Stamp.Equal(&stamp) {
			t.Error("the stamp is the same")
		}
	})
}

// Rule D43: agents get other addresses; the Lease has them, whether or not a hub process runs, and no verdict changes.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		p, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		since := w.stored().Clusters[0].Since
		for i := range 20 {
			w.beacons("b", fmt.Sprintf("10.1.1.%d:9471", i), fmt.Sprintf("10.1.2.%d:9471", i))
			elapse(40 * time.Second)
			w.are("b True Answers, c True Answers")
		}
		if p.Unreachable("b") || !w.stored().Clusters[0].Since.Equal(&since) {
			t.Error("a verdict has changed meanwhile")
		}
	})
}

// Rule D43: an agent that states beacons only later, because it is newer than its cluster's Lease, is measured soon after.
func TestBeaconsThatAreStatedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b")
		w.member("c", "10.2.0.0/16")
		_, stop := w.start()
		defer stop()
		elapse(15 * time.Second)
		w.are("b True Answers, c Unknown NoBeacon")
		w.beacons("c", "10.2.0.1:9471")
		elapse(30 * time.Second)
		w.are("b True Answers, c True Answers")
	})
}

// Rule D51, and that beacons are known while the hub is away.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		_, stop := w.start()
		elapse(10 * time.Second)
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		elapse(10 * time.Second)
		stop()
		w.are("b False NoAnswer, c True Answers, d True Answers")
		since := w.stored().Clusters[0].Since
		w.set(func() { w.hubAway = true })
		elapse(5 * time.Minute)
		p, stop := w.start()
		<-p.Loaded()
		if !p.Unreachable("b") || p.Unreachable("c") {
			t.Error("it begins with other verdicts")
		}
		elapse(10 * time.Second)
		w.are("b False NoAnswer, c True Answers, d True Answers")
		if now := w.stored().Clusters[0]; !now.Since.Equal(&since) {
			t.Errorf("%+v, before since %s", now, since)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = false })
		elapse(20 * time.Second)
		w.are("b True Answers, c True Answers, d True Answers")
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		elapse(10 * time.Second)
		stop()

		elapse(time.Hour) // nobody counts its verdicts any more
		p, stop = w.start()
		defer stop()
		<-p.Loaded()
		if p.Unreachable("b") {
			t.Error("an old verdict counts")
		}
		elapse(time.Minute)
		w.are("b False NoAnswer, c True Answers, d True Answers") // it was reached once
	})
}

// A rollout replaces an agent soon after it started, or a machine kills it. Rule D51.
func TestRestartedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		elapse(10 * time.Second)
		stop()
		before := w.stored().Clusters
		w.set(func() { w.hubAway = true })
		for _, ran := range []time.Duration{time.Millisecond, 10 * time.Second, time.Millisecond, time.Millisecond, 10 * time.Second} {
			_, stop := w.start()
			elapse(ran)
			stop()
			if now := w.stored().Clusters; !slices.EqualFunc(before, now, func(a, b clustersetv1alpha1.ClusterReachability) bool {
				return a.Name == b.Name && a.Reachable == b.Reachable && a.Reason == b.Reason && a.Since.Equal(&b.Since) && slices.Equal(a.Beacons, b.Beacons)
			}) {
				t.Errorf("after an agent that ran for %s: %+v, want %+v", ran, now, before)
			}
		}
	})
}

// Rule D48.
func TestSetThatBlocksThePortWorksAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		w.cut["10.1.0.1:9471"], w.cut["10.2.0.1:9471"] = true, true
		p, stop := w.start()
		defer stop()
		elapse(time.Hour)
		w.are("b Unknown NeverReached, c Unknown NeverReached")
		if p.Unreachable("b") || p.Unreachable("c") || p.Notes()[api.AnnotationUnmeasured] != "b,c" {
			t.Error(p.Notes())
		}
	})
}

// Rule D44.
func TestAddressesThatAreNotDialled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		w.beacons("b", "127.0.0.1:22", "10.0.0.7:9471", "10.2.0.1:9471", "10.1.0.99:6443", "192.0.2.1:9471")
		w.at["10.2.0.1:9471"] = "c" // it states another's
		_, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.are("b Unknown NotAllowed, c True Answers")
		w.set(func() {
			if len(w.seen) != 1 || !w.seen["10.2.0.1:9471"] {
				t.Errorf("dialled %v", w.seen)
			}
		})
		if c := w.stored().Clusters[0]; len(c.Beacons) > 0 || c.IgnoredBeacons != 5 {
			t.Errorf("%v, and %d others", c.Beacons, c.IgnoredBeacons)
		}
	})
}

// Rules D42 and D44: what isn't dialled is counted, also where the rest is.
func TestAddressesThatAreNotDialledBesidesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		w.beacons("b", "192.0.2.1:9471", "10.1.0.1:9471", "10.1.0.2:9471", "10.1.0.3:9471", "10.1.0.4:9471", "no address")
		_, stop := w.start()
		defer stop()
		elapse(4 * time.Minute)
		w.are("b True Answers, c True Answers")
		all := w.stored().Clusters
		if want := []string{"10.1.0.1:9471", "10.1.0.2:9471", "10.1.0.3:9471"}; !slices.Equal(all[0].Beacons, want) || all[0].IgnoredBeacons != 3 || all[1].IgnoredBeacons != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// Rule D42: an agent whose data path is ClusterIPs dials those in front of the beacons, if there are any.
func TestServicesInFrontOfBeacons(t *testing.T) {
	for _, c := range []struct {
		name, services string
		option         bool
		dialled        string
	}{
		{"the beacons", "10.1.9.9:9471", false, "10.1.0.1:9471"},
		{"the Service", "10.1.9.9:9471", true, "10.1.9.9:9471"},
		{"no Service", "", true, "10.1.0.1:9471"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "b")
				lease := &coordinationv1.Lease{}
				if err := w.hub.Get(t.Context(), client.ObjectKey{Namespace: api.MemberNamespace("b"), Name: api.HeartbeatLease}, lease); err != nil {
					t.Fatal(err)
				}
				lease.Annotations[api.AnnotationBeaconServices] = c.services
				if err := w.hub.Update(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
				w.at["10.1.9.9:9471"] = "b"
				_, stop := w.start(func(o *Options) { o.Services = c.option })
				defer stop()
				elapse(time.Minute)
				w.are("b True Answers")
				w.set(func() {
					if len(w.seen) != 1 || !w.seen[c.dialled] {
						t.Errorf("dialled %v, want %s", w.seen, c.dialled)
					}
				})
			})
		})
	}
}

// Rule D87: of a cluster in another network only beacons in its externalCIDRs are dialled, although it has the same networks as this one.
func TestBeaconsOfAnotherNetwork(t *testing.T) {
	for _, tc := range []struct {
		name     string
		external []string
		want     string
		dialled  bool
	}{
		{"inside", []string{"192.0.2.0/24"}, "b True Answers, c True Answers", true},
		{"outside", []string{"198.51.100.0/24"}, "b Unknown NotAllowed, c True Answers", false},
		{"nowhere", nil, "b Unknown NotAllowed, c True Answers", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "b", "c")
				m := &clustersetv1alpha1.MemberCluster{}
				if err := w.here.Get(t.Context(), client.ObjectKey{Name: "b"}, m); err != nil {
					t.Fatal(err)
				}
				m.Spec.Network, m.Spec.CIDRs, m.Spec.ExternalCIDRs = "edge", []string{"10.0.0.0/16", "203.0.113.0/24"}, tc.external
				if err := w.here.Update(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				w.beacons("b", "10.0.0.7:9471", "203.0.113.1:9471", "192.0.2.1:9471")
				_, stop := w.start()
				defer stop()
				elapse(time.Minute)
				w.are(tc.want)
				w.set(func() {
					if w.seen["10.0.0.7:9471"] || w.seen["203.0.113.1:9471"] || w.seen["192.0.2.1:9471"] != tc.dialled {
						t.Errorf("dialled %v", w.seen)
					}
				})
			})
		})
	}
}

func TestOtherClusterAtTheAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		w.set(func() { w.at["10.1.0.1:9471"] = "x" })
		elapse(10 * time.Second)
		w.are("b False WrongCluster, c True Answers")
	})
}

func TestClustersThatLeaveOrAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		_, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		for name, f := range map[string]func(*clustersetv1alpha1.MemberCluster) error{
			"b": func(m *clustersetv1alpha1.MemberCluster) error { return w.here.Delete(t.Context(), m) },
			"c": func(m *clustersetv1alpha1.MemberCluster) error {
				m.Spec.Communities = []string{"others"}
				return w.here.Update(t.Context(), m)
			},
		} {
			m := &clustersetv1alpha1.MemberCluster{}
			if err := errors.Join(w.here.Get(t.Context(), client.ObjectKey{Name: name}, m), f(m)); err != nil {
				t.Fatal(err)
			}
		}
		elapse(5 * time.Second)
		w.are("d True Answers")
	})
}

// The rules for large sets, as a whole: the 14 s, and dials.
func TestLargeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 250 {
			all = append(all, fmt.Sprintf("c%03d", i))
		}
		w := newWorld(t, all...)
		p, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.set(func() { w.dials, w.most = 0, 0 })
		elapse(time.Minute)
		w.set(func() {
			t.Logf("%d dials in a minute, %d open at most", w.dials, w.most)
			if w.dials > 1830 || w.most > 30 {
				t.Errorf("%d dials in a minute, %d open", w.dials, w.most)
			}
			w.cut["10.18.0.1:9471"] = true
		})
		began := time.Now()
		<-p.Changed()
		if took := time.Since(began); took > 14*time.Second || !p.Unreachable("c017") {
			t.Errorf("unreachable after %s", took)
		}
	})
}

func TestLeaseHasRoomForTheSummary(t *testing.T) {
	var all []string
	for i := range 250 {
		all = append(all, strings.Repeat("x", 50)+fmt.Sprint(i))
	}
	if s := joined(all); len(s) > maxNames || !strings.HasPrefix(strings.Join(all, ","), s+",") {
		t.Errorf("%d characters", len(s))
	}
}

// Rule D52: names that don't fit are left out whole.
func TestNotesHaveABound(t *testing.T) {
	names := make([]string, 300)
	for i := range names {
		names[i] = fmt.Sprintf("cluster-number-%03d", i)
	}
	got := joined(names)
	if len(got) > maxNames || len(got) < maxNames-len(names[0]) || !strings.HasPrefix(strings.Join(names, ","), got+",") {
		t.Errorf("%d characters, ending in %q", len(got), got[len(got)-30:])
	}
	if got := joined([]string{"b", "c"}); got != "b,c" {
		t.Error(got)
	}
}

// elapse waits in a bubble of testing/synctest, whose clock moves on at once.
func elapse(d time.Duration) { <-time.After(d) }
