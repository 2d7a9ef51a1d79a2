package retention

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/test/records"
	"github.com/clusterset/clusterset/test/script"
)

func TestScripts(t *testing.T) {
	for _, archive := range []string{"testdata/keeper.txtar", "testdata/loss.txtar"} {
		script.Run(t, archive, func(t *testing.T) map[string]script.Command { return newWorld(t).commands() })
	}
}

// world is beijing's Keeper, which misses a part of shanghai, and everything that the part's fate depends on: what the hub and beijing have of
// both clusters. At first both are Ready members, shanghai renewed its Lease an hour ago, and nobody saw the part's record go.
type world struct {
	t *testing.T
	*Keeper
	hub, here client.Client
	part      Part
	began     time.Time
	lease     *coordinationv1.Lease

	leases, records error // why the hub refuses requests
	reads, asked    int   // how often it was asked for the Lease, and whether it takes records
	unread          bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, began: time.Now(), part: Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}}
	w.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.MemberNamespace("shanghai"), Name: api.HeartbeatLease, Annotations: map[string]string{api.AnnotationIncomplete: ""},
	}}
	w.hub = fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(w.lease).WithInterceptorFuncs(interceptor.Funcs{Get: w.get, Create: w.create}).Build()
	w.here = fake.NewClientBuilder().WithScheme(records.Scheme).Build()
	w.Keeper = &Keeper{
		Trust: &HubTrust{Cache: w.hub, Live: w.hub, Records: w.hub, Cluster: "beijing", Clock: clock.RealClock{}}, Hub: w.hub, Here: w.here,
		Departures: NewDepartures(clock.RealClock{}), AwaitRejoin: time.Hour, Clock: clock.RealClock{}, Spread: 2 * time.Second,
		Passed: func(_, version string) bool { return version == w.lease.ResourceVersion }, Unread: func(string) bool { return w.unread },
	}
	for _, err := range []error{w.onHub("beijing"), w.onHub("shanghai"), w.copied("joined"), w.renew("-1h")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, lease := o.(*coordinationv1.Lease); lease {
		w.reads++
		if w.leases != nil {
			return w.leases
		}
	}
	return c.Get(ctx, key, o, opts...)
}

// create is asked only by HubTrust: whether the hub takes an ExportedService, and then an ExportedEndpoints.
func (w *world) create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	switch o.(type) {
	case *clustersetv1alpha1.ExportedService:
		w.asked++
		return nil
	case *clustersetv1alpha1.ExportedEndpoints:
		return w.records
	}
	return c.Create(ctx, o, opts...)
}

func (w *world) commands() map[string]script.Command {
	return map[string]script.Command{
		"hub":      script.OneOrMore(w.onHub),
		"copy":     script.OneOrMore(w.copied),
		"withdraw": script.None(func() { w.Departures.note(w.part, true, true) }),
		"vanish":   script.None(func() { w.Departures.note(w.part, false, true) }),
		"unread":   script.None(func() { w.unread = true }),
		"read":     script.None(func() { w.unread = false }),
		"renew":    script.One(w.renew),
		"refuse":   script.One(w.refuse),
		"accept":   script.None(func() { w.leases, w.records = nil, nil }),
		"asked":    script.One(w.wasAsked),
		"held":     script.For(w.held),
		"gone":     script.None(w.gone),
	}
}

// wasAsked checks how often the hub was asked whether it takes records.
func (w *world) wasAsked(times string) error {
	if got := strconv.Itoa(w.asked); got != times {
		return fmt.Errorf("asked %s times", got)
	}
	return nil
}

// after returns the time of an age.
func (w *world) after(age string) (metav1.Time, error) {
	d, err := time.ParseDuration(age)
	return metav1.NewTime(w.began.Add(d)), err
}

// onHub writes a MemberCluster to the hub: none, or one with phase=, since= (the phase), created=, communities=, or that has left.
func (w *world) onHub(name string, says ...string) (err error) {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	m.Status.Phase, m.CreationTimestamp = clustersetv1alpha1.MemberReady, metav1.NewTime(w.began.Add(-time.Hour))
	since, left := m.CreationTimestamp, false
	for _, s := range says {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "none":
			return w.hub.Delete(w.t.Context(), m)
		case "phase":
			m.Status.Phase = clustersetv1alpha1.MemberClusterPhase(value)
		case "since":
			since, err = w.after(value)
		case "created":
			m.CreationTimestamp, err = w.after(value)
		case "communities":
			m.Spec.Communities = strings.Split(value, ",")
		case "left":
			left, m.Finalizers = true, []string{api.MemberFinalizer}
		default:
			err = fmt.Errorf("a MemberCluster has no %q", s)
		}
		if err != nil {
			return err
		}
	}
	ready := metav1.Condition{Type: clustersetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, LastTransitionTime: since}
	if m.Status.Phase == clustersetv1alpha1.MemberReady {
		ready.Status = metav1.ConditionTrue
	}
	m.Status.Conditions = []metav1.Condition{ready}
	if err := put(w.t.Context(), w.hub, m); err != nil || !left {
		return err
	}
	return w.hub.Delete(w.t.Context(), m)
}

// copied writes shanghai's MemberCluster in beijing: none, a foreign one, or the importer's of a cluster that is only described, has joined, or is
// missing on the hub since the beginning. It may have communities=.
func (w *world) copied(what string, says ...string) error {
	m := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai", Labels: desired.Labels()}}
	for _, s := range says {
		m.Spec.Communities = strings.Split(strings.TrimPrefix(s, "communities="), ",")
	}
	switch what {
	case "none":
		return w.here.Delete(w.t.Context(), m)
	case "foreign":
		m.Labels = nil
	case "described":
	case "missing":
		m.Status.Conditions = []metav1.Condition{{Type: clustersetv1alpha1.ConditionOnHub, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.began)}}
		fallthrough
	case "joined":
		m.Annotations = map[string]string{api.AnnotationJoined: w.began.Format(time.RFC3339)}
	default:
		return fmt.Errorf("unknown copy %q", what)
	}
	return put(w.t.Context(), w.here, m)
}

// put creates or replaces an object.
func put(ctx context.Context, c client.Client, o *clustersetv1alpha1.MemberCluster) error {
	was := &clustersetv1alpha1.MemberCluster{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), was); apierrors.IsNotFound(err) {
		return c.Create(ctx, o)
	}
	o.ResourceVersion = was.ResourceVersion
	return c.Update(ctx, o)
}

// renew renews shanghai's Lease at an age, by its own clock.
func (w *world) renew(age string) error {
	at, err := w.after(age)
	if err != nil {
		return err
	}
	w.lease.Spec.RenewTime = new(metav1.NewMicroTime(at.Time))
	return w.hub.Update(w.t.Context(), w.lease)
}

func (w *world) refuse(what string) error {
	switch what {
	case "leases":
		w.leases = apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, api.HeartbeatLease, nil)
	case "records":
		w.records = apierrors.NewForbidden(schema.GroupResource{Resource: "exportedendpoints"}, "probe", errors.New("create not allowed while custom resource definition is terminating"))
	default:
		return fmt.Errorf("unknown request %q", what)
	}
	return nil
}

// decide decides about parts that are missing.
func (w *world) decide(parts ...Part) Outcome {
	service, last := w.part.Service, Records{}
	for _, p := range parts {
		service = p.Service
		last.Exports = append(last.Exports, &door.Export{Cluster: p.Cluster, Key: service})
	}
	o, err := w.Effective(w.t.Context(), service, Records{}, last)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// held decides whenever it is due. The part has to be kept for that long, for a reason that contains the first other argument. The second is when
// each decision wants the next.
func (w *world) held(d time.Duration, args ...string) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		o, age := w.decide(w.part), time.Since(w.began)
		switch {
		case len(o.Use.Exports) != 1 || o.Why == nil || o.Again <= 0 || o.Again > heldRetry:
			return fmt.Errorf("after %s: %+v", age, o)
		case len(args) > 0 && !strings.Contains(o.Why.Error(), args[0]):
			return fmt.Errorf("after %s: %w", age, o.Why)
		case len(args) > 1 && o.Again.String() != args[1]:
			return fmt.Errorf("after %s: again in %s", age, o.Again)
		}
		script.Elapse(min(o.Again, time.Until(end)))
	}
	return nil
}

// gone checks that the part isn't kept, and that nothing is remembered of it.
func (w *world) gone() {
	if o := w.decide(w.part); len(o.Use.Exports) != 0 || o.Why != nil {
		w.t.Errorf("after %s: %+v", time.Since(w.began), o)
	}
	w.decide()
	if len(w.since) > 0 || len(w.beats.of) > 0 {
		w.t.Errorf("it still remembers %v and %v", w.since, w.beats.of)
	}
}
