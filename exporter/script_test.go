package exporter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/record"
	"github.com/clusterset/clusterset/test/script"
)

// TestExports runs the scripts of testdata/exports.txtar: what an exporter writes to the hub, and when. Rules C5 to C9, C20, C60, C70 and C79 of
// docs/spec/control-plane.md. The exporter is that of cluster beijing. Services are in namespace shop; s1-12 are twelve of them. A line is a command:
//
//	export web 10.1.0.1 10.1.0.2     creates a Service, its EndpointSlice and its ServiceExport
//	slice web-2 10.1.0.3             writes another EndpointSlice of web; without addresses: deletes it
//	unexport web                     deletes its ServiceExport
//	mark web                         deletes its ServiceExport, and marks its Service
//	service web                      deletes its Service
//	hub away|back|full|fails <text>|refuses <text>
//	                                 it doesn't answer; answers; takes no records; can't take, or refuses, records whose names have this text
//	most 3                           of a namespace, so many services are exported once the agent has restarted
//	kind gone|back                   this cluster doesn't serve ServiceExports; serves them
//	watch stops|goes                 the cache of the hub is no longer what the hub has; it is again
//	dies 2                           the agent dies after two further writes
//	restart                          the agent restarts, and does its first pass
//	backup, restore                  what the hub has is kept; it has what was kept
//	clock -24h                       the agent's clock is set
//	thief <what> web [100]           somebody with the agent's token changes its record: largest, withdraws, edits, deletes, unlabels; so many times in
//	                                 a row, each 50 ms after the last
//	leave web 3                      the hub has three endpoints of web that nobody exports, and no service
//	pass [waits]                     the agent brings everything up to date, as before a heartbeat after doubt; it isn't done within five seconds
//	advance 15s                      time goes on, and the agent does what it has to
//	exported web 10.1.0.1            the hub has this, and the record lists its endpoints. No address: a record without endpoints
//	withdrawn web                    the hub's record says that it is withdrawn, and there are no endpoints
//	gone web                         the hub has no record
//	newer web                        its revision is larger than at the last "newer"
//	writes 3|<80                     so many writes, or attempts, since the last "writes"; fewer
func TestExports(t *testing.T) {
	script.Run(t, "testdata/exports.txtar", func(t *testing.T) map[string]script.Command {
		w := newScripted(t)
		commands := map[string]script.Command{}
		for name, run := range map[string]func(*scripted, []string) error{
			"export": (*scripted).export, "slice": (*scripted).slice, "unexport": (*scripted).unexport, "service": (*scripted).noService, "mark": (*scripted).mark,
			"hub": (*scripted).become, "watch": (*scripted).watch, "kind": (*scripted).kind, "most": (*scripted).limit, "dies": (*scripted).dies, "restart": (*scripted).restart,
			"backup": (*scripted).keep, "restore": (*scripted).restore, "clock": (*scripted).clock, "thief": (*scripted).thief, "leave": (*scripted).leave,
			"pass": (*scripted).pass, "advance": (*scripted).advance, "exported": (*scripted).exported, "withdrawn": (*scripted).withdrawn,
			"gone": (*scripted).gone, "newer": (*scripted).newer, "writes": (*scripted).writes,
		} {
			commands[name] = func(args ...string) error { return run(w, args) }
		}
		return commands
	})
}

// recordName is the kind and name of a record.
type recordName struct{ kind, name string }

// recordsThere is the records that a hub, or a cache of it, has.
type recordsThere map[recordName]client.Object

func (s recordsThere) clone() recordsThere {
	c := recordsThere{}
	for at, o := range s {
		c[at] = o.DeepCopyObject().(client.Object)
	}
	return c
}

func (s recordsThere) all() (services []*clustersetv1alpha1.ExportedService, endpoints []*clustersetv1alpha1.ExportedEndpoints) {
	for _, o := range s {
		if e, ok := o.(*clustersetv1alpha1.ExportedEndpoints); ok {
			endpoints = append(endpoints, e)
		} else {
			services = append(services, o.(*clustersetv1alpha1.ExportedService))
		}
	}
	return services, endpoints
}

func at(o client.Object, name string) recordName {
	if _, ok := o.(*clustersetv1alpha1.ExportedService); ok {
		return recordName{kindService, name}
	}
	return recordName{kindEndpoints, name}
}

// scripted is a hub, and the exporter of a cluster.
type scripted struct {
	client.Client // nobody calls what isn't below

	t    *testing.T
	here client.WithWatch
	r    *reconciler

	mu                  sync.Mutex // of what cache is
	live, cache, backup recordsThere
	version             int
	away, full, dead    bool
	refuses, fails      string
	stopped             bool // the watch
	unserved            bool // ServiceExports
	most                int  // services of a namespace
	left                int  // writes until the agent dies
	written             int
	skew                time.Duration
	revisions           map[string]int64
	due                 map[types.NamespacedName]time.Time
}

func newScripted(t *testing.T) *scripted {
	scheme := connect.NewScheme()
	if err := mcs.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &scripted{t: t, live: recordsThere{}, cache: recordsThere{}, left: math.MaxInt, most: DefaultMaxPerNamespace, revisions: map[string]int64{}}
	w.here = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(export()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, slice := o.(*discoveryv1.EndpointSlice); w.unserved && !slice {
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "post", schema.GroupResource{}, "", "404 page not found", 0, true)
			}
			return c.Create(ctx, o, opts...)
		},
	}).
		WithIndex(&discoveryv1.EndpointSlice{}, indexSlices, func(o client.Object) []string { return []string{backed(o).Name} }).Build()
	w.start()
	return w
}

// start starts the agent's process.
func (w *scripted) start() {
	w.due = map[types.NamespacedName]time.Time{}
	w.r = &reconciler{
		cluster: "beijing", local: w.here, exports: serviceExports{w.here, mcs.Version("v1beta1")}, hub: w, onHub: w,
		nodes: nodes.New(), names: newResolver(nil, nil), pass: newPass(),
		events: &events.FakeRecorder{}, ofPeers: rate.NewLimiter(rate.Inf, 0), perNamespace: w.most,
		synced: func() bool { return true }, unheard: func() error { return nil }, now: func() time.Time { return time.Now().Add(w.skew) },
		withdrawals: newWithdrawalGuard(DefaultHoldWithdrawals, DefaultReplaceFor),
	}
	w.r.withdrawals.served = w.r.exports.served
	w.dead, w.left = false, math.MaxInt
	w.sync()
	_ = w.until(func() error { return w.r.firstPass(w.t.Context()) }, time.Minute)
}

func (w *scripted) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if w.away || w.dead {
		return errAway
	}
	services, endpoints := w.live.all()
	switch into := into.(type) {
	case *clustersetv1alpha1.ExportedServiceList:
		for _, s := range services {
			into.Items = append(into.Items, *s)
		}
	case *clustersetv1alpha1.ExportedEndpointsList:
		for _, e := range endpoints {
			into.Items = append(into.Items, *e)
		}
	}
	return nil
}

// OwnRecords, Own, Service and Member are what is known of the hub: its cache, and nothing of others.
func (w *scripted) OwnRecords() ([]*clustersetv1alpha1.ExportedService, []*clustersetv1alpha1.ExportedEndpoints) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cache.all()
}

func (w *scripted) Own(key types.NamespacedName) (export *clustersetv1alpha1.ExportedService, of []*clustersetv1alpha1.ExportedEndpoints) {
	services, endpoints := w.OwnRecords()
	for _, s := range services {
		if s.Name == api.ExportedServiceName(key.Namespace, key.Name) {
			export = s
		}
	}
	return export, slices.DeleteFunc(endpoints, func(e *clustersetv1alpha1.ExportedEndpoints) bool { return keyOf(e) != key })
}

func (w *scripted) Service(types.NamespacedName) []store.Part { return nil }

func (w *scripted) Member(string) *clustersetv1alpha1.MemberCluster { return nil }

func (w *scripted) admit(name string) error {
	switch {
	case w.away || w.dead:
		return errAway
	case w.left == 0:
		w.dead = true
		return errAway
	case w.full || w.fails != "" && strings.Contains(name, w.fails):
		w.written++
		return apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded"))
	case w.refuses != "" && strings.Contains(name, w.refuses):
		w.written++
		return apierrors.NewForbidden(schema.GroupResource{}, name, errors.New("a policy"))
	}
	w.left--
	w.written++
	return nil
}

func (w *scripted) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if err := w.admit(o.GetName()); err != nil {
		return err
	}
	if w.live[at(o, o.GetName())] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprint("uid-", w.version)))
	w.put(o)
	return nil
}

func (w *scripted) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	if err := w.admit(o.GetName()); err != nil {
		return err
	}
	switch was := w.live[at(o, o.GetName())]; {
	case was == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, o.GetName())
	case was.GetResourceVersion() != o.GetResourceVersion():
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("modified"))
	default:
		o.SetUID(was.GetUID())
	}
	w.put(o)
	return nil
}

func (w *scripted) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	if err := w.admit(o.GetName()); err != nil {
		return err
	}
	delete(w.live, at(o, o.GetName()))
	w.sync()
	return nil
}

func (w *scripted) put(o client.Object) {
	w.version++
	o.SetResourceVersion(strconv.Itoa(w.version))
	w.live[at(o, o.GetName())] = o.DeepCopyObject().(client.Object)
	w.sync()
}

// sync lets the cache have what the hub has, and queues what has changed.
func (w *scripted) sync() {
	if w.stopped || w.away {
		return
	}
	was, is := w.cache, w.live.clone()
	for _, all := range []recordsThere{was, is} {
		for at, o := range all {
			if before, now := was[at], is[at]; before == nil || now == nil || before.GetResourceVersion() != now.GetResourceVersion() {
				w.add(keyOf(o))
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cache = is
}

func (w *scripted) add(key types.NamespacedName) { w.due[key] = time.Now() }

// work reconciles what is due.
func (w *scripted) work() {
	for {
		synctest.Wait()
		for more := true; more; {
			select {
			case e := <-w.r.pass.keys:
				w.add(e.Object)
				synctest.Wait()
			default:
				more = false
			}
		}
		var now []types.NamespacedName
		for key, at := range w.due {
			if !at.After(time.Now()) {
				now = append(now, key)
			}
		}
		if len(now) == 0 {
			return
		}
		slices.SortFunc(now, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
		for _, key := range now {
			delete(w.due, key)
			result, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
			switch at, again := w.due[key]; {
			case again && !at.After(time.Now()): // it has changed meanwhile
			case err != nil:
				w.due[key] = time.Now().Add(time.Second)
			case result.RequeueAfter > 0:
				w.due[key] = time.Now().Add(result.RequeueAfter)
			}
		}
	}
}

// until works until do is done.
func (w *scripted) until(do func() error, most time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for end := time.Now().Add(most); ; {
		w.work()
		select {
		case err := <-done:
			w.work()
			return err
		default:
		}
		if !time.Now().Before(end) {
			return errBehind
		}
		elapse(100 * time.Millisecond)
	}
}

func (w *scripted) advance(args []string) error {
	d, err := time.ParseDuration(args[0])
	for end := time.Now().Add(d); ; {
		w.work()
		next := end
		for _, at := range w.due {
			if at.Before(next) {
				next = at
			}
		}
		if !time.Now().Before(end) {
			return err
		}
		elapse(time.Until(next))
		if !w.dead {
			w.r.expireOnce(w.t.Context())
		}
	}
}

// namesOf returns web, or s1, s2 and s3 for s1-3.
func namesOf(arg string) (all []string) {
	first, last, many := strings.Cut(arg, "-")
	if !many || !strings.HasPrefix(arg, "s") {
		return []string{arg}
	}
	from, _ := strconv.Atoi(first[1:])
	to, _ := strconv.Atoi(last)
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint("s", i))
	}
	return all
}

func nameIn(arg string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: arg}
}

func (w *scripted) export(args []string) error {
	for _, name := range namesOf(args[0]) {
		svc, e := service(), export()
		svc.Name, e.Name = name, name
		svc.UID, e.UID = types.UID("service-"+name), types.UID("export-"+name)
		if err := errors.Join(ignoreExists(w.here.Create(w.t.Context(), svc)), ignoreExists(w.here.Create(w.t.Context(), mcs.Version("v1beta1").EncodeExport(e)))); err != nil {
			return err
		}
		if len(args) > 1 {
			if err := w.slice(append([]string{name + "-1"}, args[1:]...)); err != nil {
				return err
			}
		}
		w.add(nameIn(name))
	}
	w.work()
	return nil
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (w *scripted) slice(args []string) error {
	name, _, _ := strings.Cut(args[0], "-")
	s := slice(args[0], len(args)-1, func(s *discoveryv1.EndpointSlice) {
		s.Labels[api.LabelKubernetesServiceName] = name
		for i, address := range args[1:] {
			s.Endpoints[i].Addresses = []string{address}
		}
	})
	err := client.IgnoreNotFound(w.here.Delete(w.t.Context(), s.DeepCopy()))
	if len(args) > 1 && err == nil {
		err = w.here.Create(w.t.Context(), &s)
	}
	w.add(nameIn(name))
	w.work()
	return err
}

func (w *scripted) unexport(args []string) (err error) {
	for _, name := range namesOf(args[0]) {
		e := export()
		e.Name = name
		err = errors.Join(err, w.here.Delete(w.t.Context(), mcs.Version("v1beta1").EncodeExport(e)))
		w.add(nameIn(name))
	}
	w.work()
	return err
}

func (w *scripted) mark(args []string) error {
	svc := &corev1.Service{}
	if err := w.here.Get(w.t.Context(), nameIn(args[0]), svc); err != nil {
		return err
	}
	svc.Labels = map[string]string{api.KeyGlobalService: "true"}
	return errors.Join(w.here.Update(w.t.Context(), svc), w.unexport(args))
}

func (w *scripted) noService(args []string) error {
	err := w.here.Delete(w.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: args[0]}})
	w.add(nameIn(args[0]))
	w.work()
	return err
}

func (w *scripted) become(args []string) error {
	w.away, w.full, w.refuses, w.fails = args[0] == "away", args[0] == "full", "", ""
	switch args[0] {
	case "refuses":
		w.refuses = args[1]
	case "fails":
		w.fails = args[1]
	}
	w.sync()
	w.work()
	return nil
}

func (w *scripted) watch(args []string) error {
	w.stopped = args[0] == "stops"
	w.sync()
	w.work()
	return nil
}

func (w *scripted) kind(args []string) error { w.unserved = args[0] == "gone"; return nil }

func (w *scripted) limit(args []string) (err error) {
	w.most, err = strconv.Atoi(args[0])
	return err
}

func (w *scripted) dies(args []string) (err error) {
	w.left, err = strconv.Atoi(args[0])
	return err
}

func (w *scripted) restart([]string) error { w.start(); return nil }

func (w *scripted) keep([]string) error { w.backup = w.live.clone(); return nil }

func (w *scripted) restore([]string) error {
	w.live = w.backup.clone()
	w.sync()
	return nil
}

func (w *scripted) clock(args []string) (err error) {
	w.skew, err = time.ParseDuration(args[0])
	return err
}

func (w *scripted) thief(args []string) error {
	if len(args) > 2 {
		times, err := strconv.Atoi(args[2])
		for range times {
			err = errors.Join(err, w.thief(args[:2]), w.advance([]string{"50ms"}))
		}
		return err
	}
	o, ok := w.live[recordName{kindService, args[1] + ".shop"}]
	if !ok {
		o = &clustersetv1alpha1.ExportedService{
			ObjectMeta: record.Meta("beijing", nameIn(args[1]), args[1]+".shop"),
			Spec:       clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "shop", ServiceName: args[1], Type: "ClusterSetIP", ExportedAt: epoch},
		}
	}
	s := o.DeepCopyObject().(*clustersetv1alpha1.ExportedService)
	switch args[0] {
	case "largest":
		s.Spec.Revision = math.MaxInt64
	case "ahead":
		s.Spec.Revision = time.Now().Add(23 * time.Hour).UnixMilli()
		s.Spec.Withdrawn = true
	case "withdraws":
		s = withdrawn(s)
		s.Spec.Revision = time.Now().UnixMilli()
	case "edits":
		s.Spec.Ports, s.Spec.Withdrawn = nil, false
	case "unlabels":
		s.Labels = nil
	case "deletes":
		delete(w.live, at(s, s.Name))
		w.sync()
		w.work()
		return nil
	default:
		return fmt.Errorf("what does the thief do: %s?", args[0])
	}
	w.put(s)
	w.work()
	return nil
}

func (w *scripted) leave(args []string) error {
	n, err := strconv.Atoi(args[1])
	for i := range n {
		name := api.ExportedEndpointsName("shop", args[0], fmt.Sprint("left-", i), 0)
		w.put(&clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: record.Meta("beijing", nameIn(args[0]), name),
			Spec:       clustersetv1alpha1.ExportedEndpointsSpec{ServiceNamespace: "shop", ServiceName: args[0], AddressType: discoveryv1.AddressTypeIPv4},
		})
	}
	return err
}

func (w *scripted) pass(args []string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	err := w.until(func() error { return w.r.upToDate(ctx) }, time.Minute)
	if waits := len(args) > 0; waits != (err != nil) {
		return fmt.Errorf("the hub is up to date: %w", err)
	}
	return nil
}

// onHub returns a service's record, and the addresses of its endpoints that it lists, in order.
func (w *scripted) onHub(name string) (service *clustersetv1alpha1.ExportedService, addresses []string, err error) {
	service, _ = w.live[recordName{kindService, name + ".shop"}].(*clustersetv1alpha1.ExportedService)
	for _, o := range w.live {
		e, ok := o.(*clustersetv1alpha1.ExportedEndpoints)
		if !ok || keyOf(e).Name != name {
			continue
		}
		_, _, suffix, _ := api.ParseExportedEndpointsName(e.Name)
		if service == nil || !slices.Contains(service.Spec.Endpoints, suffix) {
			err = errors.Join(err, fmt.Errorf("%s isn't listed", e.Name))
		}
		for _, at := range e.Spec.Endpoints {
			addresses = append(addresses, at.Addresses...)
		}
	}
	slices.Sort(addresses)
	return service, addresses, err
}

func (w *scripted) exported(args []string) error {
	for _, name := range namesOf(args[0]) {
		service, addresses, err := w.onHub(name)
		if err != nil || !service.Exports() || service.Spec.ServiceName != name || len(service.Spec.Ports) != 1 || !slices.Equal(addresses, args[1:]) || service.Labels[api.LabelExportedName] == "" {
			return fmt.Errorf("the hub has %+v with %v: %w", service, addresses, err)
		}
	}
	return nil
}

func (w *scripted) withdrawn(args []string) error {
	for _, name := range namesOf(args[0]) {
		service, addresses, err := w.onHub(name)
		if err != nil || service == nil || !service.Spec.Withdrawn || len(service.Spec.Ports)+len(service.Spec.Endpoints)+len(addresses) > 0 || service.Labels[api.LabelWithdrawn] == "" {
			return fmt.Errorf("the hub has %+v with %v: %w", service, addresses, err)
		}
	}
	return nil
}

func (w *scripted) gone(args []string) error {
	for _, name := range namesOf(args[0]) {
		if service, addresses, err := w.onHub(name); service != nil || len(addresses) > 0 {
			return fmt.Errorf("the hub has %+v with %v: %w", service, addresses, err)
		}
	}
	return nil
}

func (w *scripted) newer(args []string) error {
	service, _, _ := w.onHub(args[0])
	if service == nil || service.Spec.Revision <= w.revisions[args[0]] {
		return fmt.Errorf("the revision is that of %+v, and was %d", service, w.revisions[args[0]])
	}
	w.revisions[args[0]] = service.Spec.Revision
	return nil
}

func (w *scripted) writes(args []string) error {
	got := w.written
	w.written = 0
	if most, fewer := strings.CutPrefix(args[0], "<"); fewer {
		if n, err := strconv.Atoi(most); err != nil || got >= n {
			return fmt.Errorf("%d writes: %w", got, err)
		}
		return nil
	}
	if strconv.Itoa(got) != args[0] {
		return fmt.Errorf("%d writes", got)
	}
	return nil
}
