package importer

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/topology"
)

// shelf is an API server together with its informers' caches, as far as a reconciler uses them. A read allocates as much as a read
// from a cache, so that a test can count what a reconcile allocates.
type shelf struct {
	client.Client // nil, for methods that aren't implemented

	mu      sync.Mutex
	version int
	kinds   map[reflect.Type]cache.Indexer
	writes  []string

	wrote func() // is called after each write; nil: nothing is

	globalReads int // how often a GlobalService was read from the API server
}

func newShelf() *shelf { return &shelf{version: 1000, kinds: map[reflect.Type]cache.Indexer{}} }

// of returns the store for the object's kind.
func (s *shelf) of(o client.Object) cache.Indexer {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := reflect.TypeOf(o)
	if s.kinds[kind] == nil {
		s.kinds[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	}
	return s.kinds[kind]
}

// put stores a copy of an object with a new resource version.
func (s *shelf) put(o client.Object) {
	o = o.DeepCopyObject().(client.Object)
	o.SetUID(types.UID(fmt.Sprint("uid-", s.next())))
	if was := s.get(o); was != nil {
		o.SetUID(was.GetUID())
	}
	o.SetResourceVersion(strconv.Itoa(s.next()))
	if err := s.of(o).Update(o); err != nil {
		panic(err)
	}
}

func (s *shelf) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return s.version
}

func notFound(name string) error { return apierrors.NewNotFound(schema.GroupResource{}, name) }

func (s *shelf) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if m, is := into.(*metav1.PartialObjectMetadata); is {
		g, _ := s.named(&fabedgev1alpha1.GlobalService{}, key).(*fabedgev1alpha1.GlobalService)
		if g == nil {
			return notFound(key.Name)
		}
		m.ObjectMeta = g.ObjectMeta
		return nil
	}
	if _, is := into.(*fabedgev1alpha1.GlobalService); is {
		s.globalReads++
	}
	o := s.named(into, key)
	if o == nil {
		return notFound(key.Name)
	}
	var options client.GetOptions
	options.ApplyOptions(opts)
	if options.UnsafeDisableDeepCopy == nil {
		o = o.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o).Elem())
	return nil
}

// List lists MemberClusters.
func (s *shelf) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, is := into.(*clustersetv1alpha1.MemberClusterList); is {
		for _, o := range s.of(&clustersetv1alpha1.MemberCluster{}).List() {
			list.Items = append(list.Items, *o.(*clustersetv1alpha1.MemberCluster))
		}
		return nil
	}
	panic(fmt.Sprintf("can't list %T", into))
}

func (s *shelf) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if s.get(o) != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{}, o.GetName())
	}
	if svc, ok := o.(*corev1.Service); ok {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = "10.96.0.9", []string{"10.96.0.9"}, []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return s.store("create", o)
}

func (s *shelf) get(o client.Object) client.Object { return s.named(o, client.ObjectKeyFromObject(o)) }

func (s *shelf) named(kind client.Object, name types.NamespacedName) client.Object {
	key := name.String()
	if name.Namespace == "" {
		key = name.Name
	}
	if o, exists, _ := s.of(kind).GetByKey(key); exists {
		return o.(client.Object)
	}
	return nil
}

// all returns copies of all objects, sorted.
func (s *shelf) all() (all []client.Object) {
	for _, kind := range s.kinds {
		for _, o := range kind.List() {
			all = append(all, o.(client.Object).DeepCopyObject().(client.Object))
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

func (s *shelf) note(verb string, o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, verb+" "+kindOf(o)+" "+o.GetName())
}

func (s *shelf) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return s.store("update", o)
}

func (s *shelf) store(verb string, o client.Object) error {
	s.put(o)
	s.note(verb, o)
	s.written()
	stored := s.get(o)
	o.SetResourceVersion(stored.GetResourceVersion())
	o.SetUID(stored.GetUID())
	return nil
}

func (s *shelf) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	s.note("delete", o)
	defer s.written()
	was := s.get(o)
	if was == nil {
		return notFound(o.GetName())
	}
	if len(was.GetFinalizers()) > 0 {
		held := was.DeepCopyObject().(client.Object)
		held.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(2e9, 0)})
		s.put(held)
		return nil
	}
	return s.of(o).Delete(was)
}

func (s *shelf) written() {
	if s.wrote != nil {
		s.wrote()
	}
}

type shelfStatus struct {
	client.SubResourceWriter
	shelf *shelf
}

func (s *shelf) Status() client.SubResourceWriter { return shelfStatus{shelf: s} }

func (s shelfStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.shelf.store("update status of", o)
}

// rig is a reconciler in cluster "here", with a shelf as the hub and a shelf as the local API server.
type rig struct {
	*reconciler
	hub, here *shelf
	known     *fakeHub // what is known of the hub
	clock     *clocktesting.FakeClock
}

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func newRig(options Options) *rig {
	options.Cluster = "here"
	g := &rig{hub: newShelf(), here: newShelf(), clock: clocktesting.NewFakeClock(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC))}
	options, err := options.withDefaults()
	if err != nil {
		panic(err)
	}
	ours := &slicesOf{}
	if err := ours.use(g.here.of(&discoveryv1.EndpointSlice{})); err != nil {
		panic(err)
	}
	g.known = &fakeHub{shelf: g.hub, clock: g.clock, values: map[client.Object]any{}, state: store.State{Phase: store.Live, Since: time.Unix(0, 0)}}
	g.reconciler = &reconciler{options: options, local: &local{cache: g.here, slices: ours, live: g.here, client: g.here, imports: "v1beta1"}}
	g.start()
	g.here.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	g.hub.put(memberAt("here", "zone-0"))
	for _, zone := range []string{"zone-0", "zone-1", "zone-2"} {
		g.node(zone, false)
	}
	return g
}

// start starts the importer's process anew: it remembers nothing.
func (g *rig) start() {
	was := g.reconciler
	g.reconciler = newReconciler(was.options, g.known, was.local, events.NewFakeRecorder(1000), g.clock)
}

// node adds the node in a zone, or removes it.
func (g *rig) node(zone string, gone bool) {
	is := nodes.Node{Name: "in-" + zone, At: topology.Location{Zone: zone, Region: "region-0"}}
	all := slices.DeleteFunc(slices.Clone(g.options.Nodes.All()), func(n nodes.Node) bool { return n.Name == is.Name })
	if !gone {
		all = append(all, is)
	}
	g.options.Nodes.Set(context.Background(), all...)
}

func memberAt(name, zone string) *clustersetv1alpha1.MemberCluster {
	m := &clustersetv1alpha1.MemberCluster{}
	m.Name, m.Spec.Zones, m.Spec.Region = name, []string{zone}, "region-"+zone[len(zone)-1:]
	m.CreationTimestamp, m.Status.Phase = metav1.NewTime(time.Unix(1e9, 0)), clustersetv1alpha1.MemberReady
	m.Annotations = map[string]string{api.AnnotationJoined: "2020-01-01T00:00:00Z"}
	return m
}

// exportedBy returns a cluster's record of shop/web.
func exportedBy(cluster string, kind mcsv1beta1.ServiceImportType, number int) *clustersetv1alpha1.ExportedService {
	s := &clustersetv1alpha1.ExportedService{}
	s.Namespace, s.Name, s.Labels = api.MemberNamespace(cluster), "web.shop", map[string]string{api.LabelCluster: cluster}
	s.Spec = clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: "shop", ServiceName: "web", Type: kind, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}, ExportedAt: metav1.NewTime(time.Unix(1.6e9, 0)), Revision: 1.6e12,
	}
	for n := range 10 {
		s.Spec.Endpoints = append(s.Spec.Endpoints, suffixOf(fmt.Sprint("web-", n)))
	}
	if kind == mcsv1beta1.ClusterSetIP {
		s.Spec.ClusterIPs = []string{fmt.Sprintf("10.200.%d.%d", number/250, number%250+1)}
	}
	return s
}

// suffixOf returns what an ExportedService's list has of the record of a slice.
func suffixOf(slice string) string {
	return strings.TrimPrefix(api.ExportedEndpointsName("shop", "web", slice, 0), "web.shop.")
}

// endpointsOf returns the n-th record of a cluster's endpoints.
func endpointsOf(cluster string, number, n, endpoints int) *clustersetv1alpha1.ExportedEndpoints {
	e := &clustersetv1alpha1.ExportedEndpoints{}
	e.Namespace, e.Name = api.MemberNamespace(cluster), api.ExportedEndpointsName("shop", "web", fmt.Sprint("web-", n), 0)
	e.Labels = map[string]string{api.LabelCluster: cluster}
	e.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-31T00:00:00Z"}
	name, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	e.Spec = clustersetv1alpha1.ExportedEndpointsSpec{
		ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []clustersetv1alpha1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for i := range endpoints {
		ready := true
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.%d.%d.%d", number%200, number/200*100+n, i+1)}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return e
}

// reconcile reconciles shop/web until there is nothing left to write, like a controller that gets events for its own writes.
func (g *rig) reconcile(t testing.TB) reconcile.Result {
	t.Helper()
	for range 10 {
		if result := g.once(t); len(g.here.writes) == 0 {
			return result
		}
	}
	t.Fatalf("it doesn't come to an end: %v", g.here.writes)
	return reconcile.Result{}
}

// once reconciles shop/web once, as if nothing of it had been written lately.
func (g *rig) once(t testing.TB) reconcile.Result {
	t.Helper()
	g.here.writes = nil
	g.memories.get(web).writes.AllowN(g.clock.Now(), -writesAtOnce)
	result, err := g.Reconcile(context.Background(), reconcile.Request{NamespacedName: web})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// large returns a rig that has imported shop/web from many clusters.
func large(t testing.TB, kind mcsv1beta1.ServiceImportType, clusters, endpoints int) *rig {
	g := newRig(Options{DataPath: desired.DataPathPods})
	for c := range clusters {
		name := fmt.Sprintf("cluster-%03d", c)
		g.hub.put(memberAt(name, fmt.Sprint("zone-", c%5)))
		s := exportedBy(name, kind, c)
		s.Spec.Endpoints = s.Spec.Endpoints[:(endpoints+api.MaxExportedEndpoints-1)/api.MaxExportedEndpoints]
		g.hub.put(s)
		for n := 0; n < endpoints; n += api.MaxExportedEndpoints {
			g.hub.put(endpointsOf(name, c, n/api.MaxExportedEndpoints, min(endpoints-n, api.MaxExportedEndpoints)))
		}
	}
	g.reconcile(t)
	return g
}

// gathered returns the input that Reconcile gathers.
func (g *rig) gathered(t testing.TB) (desired.Input, desired.Current) {
	t.Helper()
	ctx, o := context.Background(), g.round(web)
	cur, own, err := g.gatherLocal(ctx, web)
	if err != nil {
		t.Fatal(err)
	}
	o.gatherHub()
	if err := o.gatherService(ctx); err != nil {
		t.Fatal(err)
	}
	o.in.Own = o.gatherOwn(own)
	o.gatherMembers(ctx)
	o.in.Derived = cur.Derived
	if stored := g.global(); stored != nil {
		cur.Global = stored // whole
	}
	return o.in, cur
}

// flip changes the readiness of one endpoint of one cluster.
func (g *rig) flip(cluster string, ready bool) {
	key := types.NamespacedName{Namespace: api.MemberNamespace(cluster), Name: api.ExportedEndpointsName("shop", "web", "web-0", 0)}
	e := &clustersetv1alpha1.ExportedEndpoints{}
	if err := g.hub.Get(context.Background(), key, e); err != nil {
		panic(err)
	}
	e.Spec.Endpoints[0].Conditions.Ready = &ready
	g.hub.put(e)
}

func (g *rig) ownEndpoint(address string) {
	g.here.put(&corev1.Service{ObjectMeta: here("web")})
	name, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: here("web-x"), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}}}
	g.here.put(slice)
}

func here(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }

// withdraw withdraws an export as its exporter does, or deletes a record of endpoints.
func (g *rig) withdraw(o client.Object) {
	if svc, is := o.(*clustersetv1alpha1.ExportedService); is {
		g.hub.put(withdrawn(svc))
		return
	}
	cluster, _ := api.ClusterOfNamespace(o.GetNamespace())
	s := g.hub.get(exportedBy(cluster, "", 0)).(*clustersetv1alpha1.ExportedService).DeepCopy()
	s.Spec.Endpoints = slices.DeleteFunc(s.Spec.Endpoints, func(suffix string) bool { return "web.shop."+suffix == o.GetName() })
	g.hub.put(s)
	_ = g.hub.Delete(context.Background(), o) // or it is gone
}

// withdrawn returns an ExportedService that says so.
func withdrawn(s *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	s = s.DeepCopy()
	s.Spec = clustersetv1alpha1.ExportedServiceSpec{
		ServiceNamespace: s.Spec.ServiceNamespace, ServiceName: s.Spec.ServiceName, Type: s.Spec.Type, ExportedAt: s.Spec.ExportedAt,
		Revision: s.Spec.Revision + 1, Withdrawn: true,
	}
	return s
}

// leftOut returns what the ServiceImport shop/web says to be left out.
func (g *rig) leftOut() string {
	imp := g.here.get(&mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}).(*mcsv1beta1.ServiceImport)
	if c := meta.FindStatusCondition(imp.Status.Conditions, api.ConditionComplete); c != nil {
		return c.Message
	}
	return ""
}
