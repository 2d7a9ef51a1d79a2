package retention

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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

// decide decides about parts that are missing.
func (k *Keeper) decide(t *testing.T, parts ...Part) Outcome {
	t.Helper()
	service, last := types.NamespacedName{Namespace: "shop", Name: "web"}, Records{}
	for _, p := range parts {
		service = p.Service
		last.Services = append(last.Services, &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(p.Cluster)},
			Spec:       clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: service.Namespace, ServiceName: service.Name},
		})
	}
	o, err := k.Effective(t.Context(), service, Records{}, last)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestKeeper asks beijing's Keeper when a service of shanghai is missing. Rules C42, C43 and C44 of docs/spec/control-plane.md.
func TestKeeper(t *testing.T) {
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
		gone      string // how its record disappeared: withdrawn, seen, or nobody saw it
		// held are ages at which the part is held, until is the first age at which it isn't, and why is the reason.
		held  []time.Duration
		until time.Duration
		why   error
	}{
		{
			"it left",
			[]client.Object{beijing, left(shanghai(clustersetv1alpha1.MemberReady))},
			[]client.Object{mirrored},
			"",
			[]time.Duration{0, leaveGrace - time.Millisecond},
			leaveGrace, errLeaving,
		},
		{"all leave", []client.Object{left(beijing), left(shanghai(clustersetv1alpha1.MemberReady))}, []client.Object{mirrored}, "", []time.Duration{0, 48 * time.Hour}, 0, errAny},
		{"it is lost, and its copy was deleted here", []client.Object{beijing}, nil, "", nil, 0, nil},
		{
			"the hub has just lost it",
			[]client.Object{beijing},
			[]client.Object{mirrored},
			"",
			[]time.Duration{0}, // until the local copy records since when
			-1, errAway,
		},
		{
			"the hub has lost it, and it hasn't joined again",
			[]client.Object{beijing},
			[]client.Object{missing},
			"",
			[]time.Duration{0, time.Minute, 59 * time.Minute},
			time.Hour, errAway,
		},
		{"it was only described, and the hub doesn't describe it any more", []client.Object{beijing}, []client.Object{described}, "", nil, 0, nil},
		{"its MemberCluster is someone else's", []client.Object{beijing}, []client.Object{shanghai("")}, "", nil, 0, nil},
		{
			"it has joined again, and its agent isn't back",
			[]client.Object{beijing, shanghai("")},
			[]client.Object{missing},
			"",
			[]time.Duration{0, time.Minute, 59 * time.Minute},
			time.Hour, errUnheard,
		},
		{
			"it has joined again, and un-exports",
			[]client.Object{beijing, shanghai("")},
			[]client.Object{missing},
			"withdrawn",
			nil, 0, nil,
		},
		{"it un-exports", []client.Object{beijing, shanghai(clustersetv1alpha1.MemberReady)}, []client.Object{mirrored}, "withdrawn", nil, 0, nil},
		{
			"somebody deletes its record",
			[]client.Object{beijing, shanghai(clustersetv1alpha1.MemberReady)},
			[]client.Object{mirrored},
			"seen",
			[]time.Duration{0, VanishedGrace - time.Millisecond},
			VanishedGrace, errVanished,
		},
		{
			"the hub comes back from a backup",
			[]client.Object{beijing, shanghai(clustersetv1alpha1.MemberSuspect)},
			[]client.Object{mirrored},
			"",
			[]time.Duration{0, unseenGrace - time.Millisecond},
			-1, errVanished,
		},
		{
			"it is in another community now",
			[]client.Object{in(beijing, "x"), in(shanghai(clustersetv1alpha1.MemberReady), "y")},
			[]client.Object{mirrored},
			"",
			nil, 0, nil,
		},
		{
			"it is in another community, and lost",
			[]client.Object{in(beijing, "x")},
			[]client.Object{in(missing, "y")},
			"",
			[]time.Duration{0, 59 * time.Minute},
			time.Hour, errAway,
		},
		{
			"it is in one of our communities",
			[]client.Object{in(beijing, "x", "y"), in(shanghai(clustersetv1alpha1.MemberReady), "y")},
			[]client.Object{mirrored},
			"",
			[]time.Duration{0, unseenGrace - time.Millisecond},
			-1, errVanished,
		},
		{"the hub forgets it", []client.Object{beijing, shanghai(clustersetv1alpha1.MemberExpired)}, []client.Object{mirrored}, "seen", nil, 0, nil},
		{"the hub doesn't know us", nil, []client.Object{mirrored}, "withdrawn", []time.Duration{0, 48 * time.Hour}, 0, errAny},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(began)
			hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(c.hub...).Build()
			here := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(c.here...).Build()
			h := &Keeper{
				Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: here,
				Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock, Passed: func(string, string) bool { return true },
			}
			p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
			if c.gone != "" {
				h.Departures.note(p, c.gone == "withdrawn", true)
			}
			for _, age := range c.held {
				clock.SetTime(began.Add(age))
				d := h.decide(t, p)
				why := d.Why
				if len(d.Use.Services) != 1 || d.Again <= 0 || why == nil {
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
			if d := h.decide(t, p); len(d.Use.Services) != 0 || d.Why != nil {
				t.Errorf("after %s: %+v", c.until, d)
			}
			h.decide(t)
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
func TestKeeperNoticesAShortLossOfAKind(t *testing.T) {
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
	}, Get: func(ctx context.Context, hub client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if lease, ok := o.(*coordinationv1.Lease); ok { // its agent is running
			lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now()))
			lease.Annotations = map[string]string{api.AnnotationIncomplete: ""}
			return nil
		}
		return hub.Get(ctx, key, o, opts...)
	}}).Build()
	h := &Keeper{
		Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: hub,
		Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock, Passed: func(string, string) bool { return true }, Spread: 3 * time.Second,
		Unread: func(string) bool { return c.unread && refuses != nil },
	}
	p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
	h.Departures.note(p, false, c.grace == VanishedGrace)
	refuses = apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "exportedendpoints"}, "create")
	for at := time.Duration(0); at < c.grace; at += vanishedRetry {
		if at == c.back {
			refuses = nil
		}
		clock.SetTime(began.Add(at))
		if d := h.decide(t, p); len(d.Use.Services) != 1 || d.Again != vanishedRetry && (!c.unread || at <= h.Spread) {
			t.Errorf("after %s: %+v", at, d)
		}
	}
	if asked != 2*c.asked { // once for each kind
		t.Errorf("asked %d times", asked)
	}
	clock.SetTime(began.Add(c.grace))
	if d := h.decide(t, p); len(d.Use.Services) != 1 || !errors.Is(d.Why, ErrLost) {
		t.Errorf("the kind was away a moment ago: %+v", d)
	}
	clock.SetTime(began.Add(h.Spread + settleFor))
	if d := h.decide(t, p); len(d.Use.Services) != 0 {
		t.Errorf("a minute later: %+v", d)
	}
}

// Services whose records can't be read are kept for as long as necessary, unless their exporter has withdrawn them.
func TestKeeperKeepsWhatIsUnread(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	clock := clocktesting.NewFakePassiveClock(began)
	hub := fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}},
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}, Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady}},
	).Build()
	unread := true
	h := &Keeper{
		Guard: &Guard{Cache: hub, Live: hub, Records: hub, Cluster: "beijing", Clock: clock}, Hub: hub, Here: hub,
		Departures: NewDepartures(clock), AwaitRejoin: time.Hour, Clock: clock, Passed: func(string, string) bool { return true }, Unread: func(cluster string) bool { return unread && cluster == "shanghai" },
	}
	p := Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}
	decide := func(at time.Duration) Outcome {
		clock.SetTime(began.Add(at))
		return h.decide(t, p)
	}
	for _, at := range []time.Duration{0, 2 * VanishedGrace, 48 * time.Hour} {
		if d := decide(at); len(d.Use.Services) != 1 || !errors.Is(d.Why, errUnread) || d.Again <= 0 {
			t.Errorf("after %s: %+v", at, d)
		}
	}
	unread = false
	if d := decide(48 * time.Hour); len(d.Use.Services) != 0 {
		t.Errorf("it has been read: %+v", d)
	}
	unread = true
	h.Departures.note(p, true, false)
	if d := decide(48 * time.Hour); len(d.Use.Services) != 0 {
		t.Errorf("it was withdrawn: %+v", d)
	}
}

// errAny stands for any reason of the Guard, errAway for any LostError.
var errAny, errAway = errors.New("any"), errors.New("away")

// unseenPart is a part of shanghai whose record nobody saw go, and everything that its fate depends on. Rule C47 of
// docs/spec/control-plane.md.
type unseenPart struct {
	*Keeper
	t        *testing.T
	hub      client.Client
	clock    *clocktesting.FakePassiveClock
	began    time.Time
	part     Part
	reads    int
	answers  error
	shanghai *clustersetv1alpha1.MemberCluster
	lease    *coordinationv1.Lease
}

func newUnseenPart(t *testing.T, phase clustersetv1alpha1.MemberClusterPhase) *unseenPart {
	u := &unseenPart{t: t, began: time.Unix(1_700_000_000, 0), part: Part{types.NamespacedName{Namespace: "shop", Name: "web"}, "shanghai", ""}}
	u.clock = clocktesting.NewFakePassiveClock(u.began)
	u.shanghai = &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai", CreationTimestamp: metav1.NewTime(u.began.Add(-time.Hour))}}
	u.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.MemberNamespace("shanghai"), Name: api.HeartbeatLease, Annotations: map[string]string{api.AnnotationIncomplete: ""},
	}}
	u.hub = fake.NewClientBuilder().WithScheme(records.Scheme).WithObjects(
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}, u.shanghai, u.lease,
	).WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, lease := o.(*coordinationv1.Lease); lease {
			u.reads++
			if u.answers != nil {
				return u.answers
			}
		}
		return c.Get(ctx, key, o, opts...)
	}}).Build()
	u.Keeper = &Keeper{
		Guard: &Guard{Cache: u.hub, Live: u.hub, Records: u.hub, Cluster: "beijing", Clock: u.clock}, Hub: u.hub, Here: u.hub,
		Departures: NewDepartures(u.clock), AwaitRejoin: 24 * time.Hour, Clock: u.clock, Spread: 2 * time.Second,
		Passed: func(_, version string) bool { return version == u.lease.ResourceVersion },
	}
	u.becomes(phase, -time.Hour)
	u.renews(-time.Hour)
	return u
}

// becomes gives shanghai a phase since that time.
func (u *unseenPart) becomes(phase clustersetv1alpha1.MemberClusterPhase, at time.Duration) {
	ready := metav1.ConditionTrue
	if phase != clustersetv1alpha1.MemberReady {
		ready = metav1.ConditionFalse
	}
	u.shanghai.Status = clustersetv1alpha1.MemberClusterStatus{Phase: phase, Conditions: []metav1.Condition{{
		Type: clustersetv1alpha1.ConditionReady, Status: ready, LastTransitionTime: metav1.NewTime(u.began.Add(at)),
	}}}
	if err := u.hub.Update(u.t.Context(), u.shanghai); err != nil {
		u.t.Fatal(err)
	}
}

// renews renews shanghai's Lease, by its own clock.
func (u *unseenPart) renews(at time.Duration) {
	u.lease.Spec.RenewTime = new(metav1.NewMicroTime(u.began.Add(at)))
	if err := u.hub.Update(u.t.Context(), u.lease); err != nil {
		u.t.Fatal(err)
	}
}

// keptUntil decides whenever it is due, from one age to another, and checks that the part is kept.
func (u *unseenPart) keptUntil(from, to time.Duration) {
	u.t.Helper()
	for at := from; at < to; {
		u.clock.SetTime(u.began.Add(at))
		d := u.decide(u.t, u.part)
		if len(d.Use.Services) != 1 || d.Again <= 0 || d.Again > heldRetry {
			u.t.Fatalf("after %s: %+v", at, d)
		}
		at += d.Again
	}
}

func (u *unseenPart) goneAfter(at time.Duration) {
	u.t.Helper()
	u.clock.SetTime(u.began.Add(at))
	if d := u.decide(u.t, u.part); len(d.Use.Services) != 0 || d.Why != nil {
		u.t.Errorf("after %s: %+v", at, d)
	}
	u.decide(u.t)
	if len(u.since) > 0 || len(u.beats.of) > 0 {
		u.t.Errorf("it still remembers %v and %v", u.since, u.beats.of)
	}
}

// Rule C47 of docs/spec/control-plane.md: what a restored hub doesn't have stays until its cluster proves that it gave it up.
func TestUnseenDepartureWaitsForAHeartbeat(t *testing.T) {
	const ready, suspect, expired = clustersetv1alpha1.MemberReady, clustersetv1alpha1.MemberSuspect, clustersetv1alpha1.MemberExpired
	for name, run := range map[string]func(u *unseenPart){
		"its cluster is there": func(u *unseenPart) {
			u.keptUntil(0, 13*time.Second)
			u.renews(13 * time.Second)
			u.keptUntil(13*time.Second, unseenGrace)
			u.goneAfter(unseenGrace)
		},
		"its cluster's clock is two days behind": func(u *unseenPart) {
			u.renews(-48 * time.Hour) // which the restored hub has
			u.keptUntil(0, 5*time.Minute)
			u.renews(-48*time.Hour + time.Second)
			u.goneAfter(7 * time.Minute)
		},
		"it is restored while its cluster is asked about": func(u *unseenPart) {
			u.keptUntil(0, 13*time.Second)
			u.renews(-2 * time.Hour) // an earlier one: that's no sign of life
			u.keptUntil(13*time.Second, 5*time.Minute)
		},
		"its cluster comes back later than any deadline, though it counts as Ready": func(u *unseenPart) {
			u.keptUntil(0, 23*time.Hour)
			u.renews(23 * time.Hour)
			u.keptUntil(23*time.Hour, 23*time.Hour+time.Second)
			u.goneAfter(23*time.Hour + maxBeatPause + heldRetry)
		},
		"its cluster is Expired in the backup": func(u *unseenPart) {
			u.keptUntil(0, 23*time.Hour)
			u.becomes(ready, 23*time.Hour)
			u.keptUntil(23*time.Hour, 23*time.Hour+time.Second)
			u.renews(23*time.Hour + 10*time.Second)
			u.goneAfter(23*time.Hour + maxBeatPause)
		},
		"the MemberCluster of the backup comes a moment later": func(u *unseenPart) {
			u.keptUntil(0, 5*time.Second)
			u.becomes(expired, -time.Hour)
			u.keptUntil(5*time.Second, time.Hour)
		},
		"the hub process expires it": func(u *unseenPart) {
			u.keptUntil(0, 45*time.Second)
			u.becomes(suspect, 45*time.Second)
			u.keptUntil(45*time.Second, 5*time.Minute)
			u.becomes(expired, 45*time.Second)
			u.goneAfter(5 * time.Minute)
		},
		"the hub process expires it again": func(u *unseenPart) {
			u.becomes(expired, -time.Hour)
			u.keptUntil(0, time.Minute)
			u.becomes(suspect, -time.Hour) // the process knows better than the backup
			u.keptUntil(time.Minute, 5*time.Minute)
			u.becomes(expired, -time.Hour)
			u.goneAfter(5 * time.Minute)
		},
		"its cluster never comes back": func(u *unseenPart) {
			u.keptUntil(0, 24*time.Hour)
			u.goneAfter(24 * time.Hour)
		},
		"the hub doesn't say": func(u *unseenPart) {
			u.answers = apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, api.HeartbeatLease, nil)
			u.keptUntil(0, time.Hour)
			u.answers = nil
			u.keptUntil(time.Hour, time.Hour+time.Second)
			u.renews(time.Hour)
			u.goneAfter(time.Hour + 2*beatPause)
		},
	} {
		t.Run(name, func(t *testing.T) {
			phase := ready
			if name == "its cluster is Expired in the backup" {
				phase = expired
			}
			run(newUnseenPart(t, phase))
		})
	}
}

// A hub that has just been restored has enough to do. However many services of a silent cluster are missing, its Lease is read once, and
// ever less often.
func TestLeasesAreReadSparingly(t *testing.T) {
	u := newUnseenPart(t, clustersetv1alpha1.MemberReady)
	parts := []Part{u.part}
	for i := range 10 {
		parts = append(parts, Part{types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web", i)}, "shanghai", ""})
	}
	reads := map[time.Duration]int{}
	for at := time.Duration(0); at < 20*time.Minute; at += time.Second {
		u.clock.SetTime(u.began.Add(at))
		for _, p := range parts {
			if d := u.decide(t, p); len(d.Use.Services) != 1 {
				t.Fatalf("after %s: %+v", at, d)
			}
		}
		reads[at] = u.reads
	}
	if early, minute, all := reads[VanishedGrace+u.Spread-time.Second], reads[time.Minute], reads[20*time.Minute-time.Second]; early != 0 || minute > 4 || all > 25 {
		t.Errorf("it read %d at once, %d in a minute and %d in all", early, minute, all)
	}
}

func TestDeparturesAreNotedAndForgotten(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	gone := NewDepartures(clock)
	heard := 0
	n := Noting{handler.Funcs{DeleteFunc: func(context.Context, event.DeleteEvent, queue) { heard++ }}, gone}
	in := records.Input(t, desired.DataPathPods, records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"))
	service, endpoints := in.Services[0], in.Endpoints[0]
	ofService, _ := partOf(service)
	ofEndpoints, _ := partOf(endpoints)

	type how struct{ withdrawn, seen bool }
	check := func(p Part, want how) {
		t.Helper()
		if withdrawn, seen := gone.how(p); (how{withdrawn, seen}) != want {
			t.Errorf("withdrawn %v, seen %v, want %+v", withdrawn, seen, want)
		}
	}
	n.Delete(t.Context(), event.DeleteEvent{Object: endpoints}, nil)
	check(ofEndpoints, how{seen: true})
	n.Delete(t.Context(), event.DeleteEvent{Object: endpoints, DeleteStateUnknown: true}, nil)
	check(ofEndpoints, how{})
	endpoints.Annotations = map[string]string{api.AnnotationWithdrawn: "true"}
	n.Delete(t.Context(), event.DeleteEvent{Object: endpoints}, nil)
	check(ofEndpoints, how{true, true})
	check(ofService, how{})
	clock.SetTime(clock.Now().Add(rememberedFor + time.Second))
	check(ofEndpoints, how{})
	service.Annotations = endpoints.Annotations
	n.Delete(t.Context(), event.DeleteEvent{Object: service, DeleteStateUnknown: true}, nil) // its mark was seen
	check(ofEndpoints, how{true, true})
	if len(gone.of) != 1 || heard != 4 {
		t.Errorf("it remembers %v, and passed on %d events", gone.of, heard)
	}
}
