package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// TestHold runs beijing's hold when a service of shanghai is missing. Rules C42, C43 and C44 of docs/spec/control-plane.md.
func TestHold(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	onHub := func(name, uid string, phase clustersetv1alpha1.MemberClusterPhase) *clustersetv1alpha1.MemberCluster {
		return &clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(began)},
			Status:     clustersetv1alpha1.MemberClusterStatus{Phase: phase},
		}
	}
	described := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai", Labels: desired.Labels()}}
	mirrored := described.DeepCopy()
	mirrored.Annotations = map[string]string{api.AnnotationJoined: began.Format(time.RFC3339)}
	missing := mirrored.DeepCopy()
	missing.Status.Conditions = []metav1.Condition{{Type: clustersetv1alpha1.ConditionOnHub, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(began)}}
	beijing := onHub("beijing", "new", clustersetv1alpha1.MemberReady)
	left := func(m *clustersetv1alpha1.MemberCluster) *clustersetv1alpha1.MemberCluster {
		m = m.DeepCopy()
		m.DeletionTimestamp, m.Finalizers = new(metav1.NewTime(began)), []string{api.MemberFinalizer}
		return m
	}
	in := func(m *clustersetv1alpha1.MemberCluster, communities ...string) *clustersetv1alpha1.MemberCluster {
		m = m.DeepCopy()
		m.Spec.Communities = communities
		return m
	}
	shanghai := func(phase clustersetv1alpha1.MemberClusterPhase) *clustersetv1alpha1.MemberCluster {
		return onHub("shanghai", "other", phase)
	}
	for _, c := range []struct {
		name      string
		hub, here []client.Object
		left      departure
		// held are ages at which the part is held, until is the first age at which it isn't, and why is the reason.
		held  []time.Duration
		until time.Duration
		why   error
	}{
		{
			"it left",
			[]client.Object{beijing, left(shanghai(clustersetv1alpha1.MemberReady))},
			[]client.Object{mirrored},
			departure{},
			[]time.Duration{0, leaveGrace - time.Millisecond},
			leaveGrace, errLeaving,
		},
		{"all leave", []client.Object{left(beijing), left(shanghai(clustersetv1alpha1.MemberReady))}, []client.Object{mirrored}, departure{}, []time.Duration{0, 48 * time.Hour}, 0, errAny},
		{"it is lost, and its copy was deleted here", []client.Object{beijing}, nil, departure{}, nil, 0, nil},
		{
			"the hub has just lost it",
			[]client.Object{beijing},
			[]client.Object{mirrored},
			departure{},
			[]time.Duration{0}, // until the local copy records since when
			-1, errAway,
		},
		{
			"the hub has lost it, and it hasn't joined again",
			[]client.Object{beijing},
			[]client.Object{missing},
			departure{},
			[]time.Duration{0, time.Minute, 59 * time.Minute},
			time.Hour, errAway,
		},
		{"it was only described, and the hub doesn't describe it any more", []client.Object{beijing}, []client.Object{described}, departure{}, nil, 0, nil},
		{"its MemberCluster is someone else's", []client.Object{beijing}, []client.Object{shanghai("")}, departure{}, nil, 0, nil},
		{
			"it has joined again, and its agent isn't back",
			[]client.Object{beijing, shanghai("")},
			[]client.Object{missing},
			departure{},
			[]time.Duration{0, time.Minute, 59 * time.Minute},
			time.Hour, errUnheard,
		},
		{
			"it has joined again, and un-exports",
			[]client.Object{beijing, shanghai("")},
			[]client.Object{missing},
			departure{withdrawn: true},
			nil, 0, nil,
		},
		{"it un-exports", []client.Object{beijing, shanghai(clustersetv1alpha1.MemberReady)}, []client.Object{mirrored}, departure{withdrawn: true}, nil, 0, nil},
		{
			"somebody deletes its record",
			[]client.Object{beijing, shanghai(clustersetv1alpha1.MemberReady)},
			[]client.Object{mirrored},
			departure{},
			[]time.Duration{0, VanishedGrace - time.Millisecond},
			VanishedGrace, errVanished,
		},
		{
			"the hub comes back from a backup",
			[]client.Object{beijing, shanghai(clustersetv1alpha1.MemberSuspect)},
			[]client.Object{mirrored},
			departure{unseen: true},
			[]time.Duration{0, unseenGrace - time.Millisecond},
			unseenGrace, errVanished,
		},
		{
			"it is in another community now",
			[]client.Object{in(beijing, "x"), in(shanghai(clustersetv1alpha1.MemberReady), "y")},
			[]client.Object{mirrored},
			departure{unseen: true},
			nil, 0, nil,
		},
		{
			"it is in another community, and lost",
			[]client.Object{in(beijing, "x")},
			[]client.Object{in(missing, "y")},
			departure{unseen: true},
			[]time.Duration{0, 59 * time.Minute},
			time.Hour, errAway,
		},
		{
			"it is in one of our communities",
			[]client.Object{in(beijing, "x", "y"), in(shanghai(clustersetv1alpha1.MemberReady), "y")},
			[]client.Object{mirrored},
			departure{unseen: true},
			[]time.Duration{0, unseenGrace - time.Millisecond},
			unseenGrace, errVanished,
		},
		{"the hub forgets it", []client.Object{beijing, shanghai(clustersetv1alpha1.MemberExpired)}, []client.Object{mirrored}, departure{}, nil, 0, nil},
		{"the hub doesn't know us", nil, []client.Object{mirrored}, departure{withdrawn: true}, []time.Duration{0, 48 * time.Hour}, 0, errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(began)
			hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(c.hub...).Build()
			here := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(c.here...).Build()
			h := &Hold{
				Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: here,
				Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock,
			}
			p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
			if c.left != (departure{}) {
				h.Departures.note(p, c.left.withdrawn, c.left.unseen)
			}
			for _, age := range c.held {
				clock.SetTime(began.Add(age))
				d := h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}})
				why := d.Why
				if len(d.Retained) != 1 || d.Retry <= 0 || why == nil || d.Refused != errors.Is(c.why, errAny) {
					t.Fatalf("after %s: %+v", age, d)
				}
				var lost *LostError
				if got := errors.As(why, &lost); got != errors.Is(c.why, errAway) || !got && !errors.Is(c.why, errAny) && !errors.Is(why, c.why) {
					t.Errorf("after %s: %v, want %v", age, why, c.why)
				}
			}
			if c.until <= 0 && c.held != nil {
				return
			}
			clock.SetTime(began.Add(c.until))
			if d := h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}}); len(d.Retained) != 0 || d.Why != nil {
				t.Errorf("after %s: %+v", c.until, d)
			}
			_ = h.Decide(t.Context(), p.Service, Removal{})
			if len(h.since) > 0 {
				t.Errorf("it still remembers %v", h.since)
			}
		})
	}
}

// Deleting a kind of record on the hub deletes all its objects. Even if the kind is back before any of them would be deleted here, the
// members get their minute (C41), because their exporters don't retry often.
//
// With communities, the records of a deleted kind can't be read.
func TestHoldNoticesAShortLossOfAKind(t *testing.T) {
	for name, c := range map[string]shortLoss{
		"read":                                  {back: 5 * time.Second, grace: VanishedGrace, asked: 1},
		"unread while it is away":               {back: 5 * time.Second, grace: VanishedGrace, asked: 1, unread: true},
		"back before this member's turn to ask": {back: 2 * time.Second, grace: unseenGrace, asked: 2},
	} {
		t.Run(name, func(t *testing.T) { c.isNoticed(t) })
	}
}

// shortLoss is a loss of a kind of record that ends after back.
type shortLoss struct {
	back  time.Duration
	grace time.Duration // for the missing record
	asked int           // how often the member probes the hub while it keeps the record
	// unread means that the records can't be read during the loss.
	unread bool
}

func (c shortLoss) isNoticed(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(began)
	var refuses error
	asked := 0
	hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}},
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady}},
	).WithInterceptorFuncs(interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		asked++
		return refuses
	}}).Build()
	h := &Hold{
		Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: hub,
		Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock, Spread: 3 * time.Second,
		Unread: func(string) bool { return c.unread && refuses != nil },
	}
	p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
	h.Departures.note(p, false, c.grace == unseenGrace)
	refuses = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "exportedendpoints"}, "create")
	for at := time.Duration(0); at < c.grace; at += vanishedRetry {
		if at == c.back {
			refuses = nil
		}
		clock.SetTime(began.Add(at))
		if d := h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}}); len(d.Retained) != 1 || d.Retry != vanishedRetry && (!c.unread || at <= h.Spread) {
			t.Errorf("after %s: %+v", at, d)
		}
	}
	if asked != 2*c.asked { // once for each kind
		t.Errorf("asked %d times", asked)
	}
	clock.SetTime(began.Add(c.grace))
	if d := h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}}); !d.Refused || !errors.Is(d.Why, ErrLost) {
		t.Errorf("the kind was away a moment ago: %+v", d)
	}
	clock.SetTime(began.Add(h.Spread + settleFor))
	if d := h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}}); len(d.Retained) != 0 {
		t.Errorf("a minute later: %+v", d)
	}
}

// Services whose records can't be read are kept for as long as necessary, unless their exporter has withdrawn them.
func TestHoldKeepsWhatIsUnread(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(began)
	hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}},
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady}},
	).Build()
	unread := true
	h := &Hold{
		Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: hub,
		Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock, Unread: func(cluster string) bool { return unread && cluster == "shanghai" },
	}
	p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
	decide := func(at time.Duration) Decision {
		clock.SetTime(began.Add(at))
		return h.Decide(t.Context(), p.Service, Removal{Missing: []Part{p}})
	}
	for _, at := range []time.Duration{0, 2 * VanishedGrace, 48 * time.Hour} {
		if d := decide(at); len(d.Retained) != 1 || !errors.Is(d.Why, errUnread) || d.Retry <= 0 {
			t.Errorf("after %s: %+v", at, d)
		}
	}
	unread = false
	if d := decide(48 * time.Hour); len(d.Retained) != 0 {
		t.Errorf("it has been read: %+v", d)
	}
	unread = true
	h.Departures.note(p, true, false)
	if d := decide(48 * time.Hour); len(d.Retained) != 0 {
		t.Errorf("it was withdrawn: %+v", d)
	}
}

// errAny stands for any reason of the Guard, errAway for any LostError.
var errAny, errAway = errors.New("any"), errors.New("away")

func TestDeparturesAreNotedAndForgotten(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	gone := NewDepartures(clock)
	heard := 0
	n := Noting{handler.Funcs{DeleteFunc: func(context.Context, event.DeleteEvent, queue) { heard++ }}, gone}
	in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"))
	service, endpoints := in.Services[0], in.Endpoints[0]
	ofService, _ := PartOf(service)
	ofEndpoints, _ := PartOf(endpoints)

	n.Delete(t.Context(), event.DeleteEvent{Object: endpoints, DeleteStateUnknown: true}, nil)
	if got := gone.grace(ofEndpoints); got != unseenGrace {
		t.Errorf("a deletion that nobody saw: %s", got)
	}
	endpoints.Annotations = map[string]string{api.AnnotationWithdrawn: "true"}
	n.Delete(t.Context(), event.DeleteEvent{Object: endpoints}, nil)
	if got := gone.grace(ofEndpoints); got != 0 {
		t.Errorf("a withdrawal: %s", got)
	}
	if got := gone.grace(ofService); got != VanishedGrace {
		t.Errorf("its service, which was not withdrawn: %s", got)
	}
	clock.SetTime(clock.Now().Add(rememberedFor + time.Second))
	if got := gone.grace(ofEndpoints); got != VanishedGrace {
		t.Errorf("long after: %s", got)
	}
	service.Annotations = endpoints.Annotations
	n.Delete(t.Context(), event.DeleteEvent{Object: service}, nil)
	if got := gone.grace(ofEndpoints); got != 0 {
		t.Errorf("the endpoints of a service that was withdrawn: %s", got)
	}
	if len(gone.of) != 1 || heard != 3 {
		t.Errorf("it remembers %v, and passed on %d events", gone.of, heard)
	}
}
