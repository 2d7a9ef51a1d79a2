package prober

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

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
	leaving map[string]bool   // addresses whose agents have been told to stop
	slow    time.Duration
	hubAway bool
	dials   int
	open    int
	most    int
	writes  int
	reads   int // of the hub
	avoid   []netip.Addr
}

func newWorld(t *testing.T, clusters ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), clustersetv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, at: map[string]string{}, cut: map[string]bool{}, leaving: map[string]bool{}, slow: 5 * time.Millisecond}
	w.hub = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reads++
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

// beacons makes a cluster's agents answer at these addresses only, and state them in its report.
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
	w.state(cluster, clustersetv1alpha1.MemberReportSpec{Beacons: append([]string{}, addresses...)})
}

// state makes a cluster's report say this.
func (w *world) state(cluster string, said clustersetv1alpha1.MemberReportSpec) {
	// As one write, like an agent's: a prober that looked between two would see a cluster without beacons.
	report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}}
	write := w.hub.Create
	if err := w.hub.Get(w.t.Context(), client.ObjectKeyFromObject(report), report); err == nil {
		write = func(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
			return w.hub.Update(ctx, o)
		}
	}
	report.Spec = said
	if err := write(w.t.Context(), report); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dial(ctx context.Context, at netip.AddrPort, cluster string) (beacon.Answer, error) {
	w.mu.Lock()
	w.dials++
	w.open++
	w.most = max(w.most, w.open)
	is, cut, leaving, slow := w.at[at.String()], w.cut[at.String()], w.leaving[at.String()], w.slow
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
	}()
	if cut || is == "" {
		// Not at the moment of a beat: whether the report is read again, after a failure, before the next dial would be chance.
		slow = 3*time.Second + beat/3
	}
	select {
	case <-ctx.Done():
		return beacon.Answer{}, beacon.ErrNoAnswer
	case <-time.After(slow):
	}
	switch {
	case cut || is == "":
		return beacon.Answer{}, beacon.ErrNoAnswer
	case is != cluster:
		return beacon.Answer{}, beacon.ErrWrongCluster
	}
	return beacon.Answer{RoundTrip: slow, Leaving: leaving}, nil
}

// start starts a prober; stop stops it, as its process would end.
func (w *world) start() (p *Prober, stop func()) {
	p = New(Options{
		Cluster: "a", Here: w.here, Live: w.here, Hub: w.hub, Dial: w.dial,
		Avoid: func(context.Context) []netip.Addr {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.avoid
		},
	})
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

// verdicts returns what is stored, such as "b True Answers, c Unknown NoBeacon".
func (w *world) verdicts() string {
	var all []string
	for _, c := range w.stored().Clusters {
		all = append(all, fmt.Sprintf("%s %s %s", c.Name, c.Reachable, c.Reason))
	}
	return strings.Join(all, ", ")
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// elapse waits in a bubble of testing/synctest, whose clock moves on at once.
func elapse(d time.Duration) { <-time.After(d) }
