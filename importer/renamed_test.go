package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// port80 replaces the port in records.Exported.
func port80(exported, name string) string {
	return strings.NewReplacer("name: http, port: 80}", "name: '"+name+"', port: 80}", "name: http, port: 8080", "name: '"+name+"', port: 8080").Replace(exported)
}

// seen is what a watcher of the member's Services and EndpointSlices sees of shop/web, in the order of the writes.
type seen struct {
	revision int
	service  *corev1.Service
	slice    *discoveryv1.EndpointSlice
	gone     bool
}

// watchPorts returns a function that returns all events since, once a marker of each kind has arrived.
func (w *world) watchPorts() func() []seen {
	w.t.Helper()
	c, err := client.NewWithWatch(w.member.Config(), client.Options{Scheme: testScheme})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	marker := metav1.ObjectMeta{Namespace: "shop", GenerateName: "marker-"}
	open := func(list client.ObjectList) watch.Interface {
		if err := c.List(ctx, list, client.InNamespace("shop")); err != nil {
			w.t.Fatal(err)
		}
		events, err := c.Watch(ctx, list, &client.ListOptions{Namespace: "shop", Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		if err != nil {
			w.t.Fatal(err)
		}
		return events
	}
	var have []seen
	var services corev1.ServiceList
	var slicesThere discoveryv1.EndpointSliceList
	watches := []watch.Interface{open(&services), open(&slicesThere)}
	for i := range services.Items {
		have = append(have, seen{service: &services.Items[i]})
	}
	for i := range slicesThere.Items {
		have = append(have, seen{slice: &slicesThere.Items[i]})
	}
	return func() []seen {
		w.t.Helper()
		for i, o := range []client.Object{
			&corev1.Service{ObjectMeta: marker, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
			&discoveryv1.EndpointSlice{ObjectMeta: marker, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}},
		} {
			if err := w.client.Create(ctx, o); err != nil {
				w.t.Fatal(err)
			}
			for event := range watches[i].ResultChan() {
				object := event.Object.(client.Object)
				if object.GetName() == o.GetName() {
					break
				}
				revision, err := strconv.Atoi(object.GetResourceVersion())
				if err != nil {
					w.t.Fatal(err)
				}
				e := seen{revision: revision, gone: event.Type == watch.Deleted}
				e.service, _ = object.(*corev1.Service)
				e.slice, _ = object.(*discoveryv1.EndpointSlice)
				have = append(have, e)
			}
		}
		slices.SortStableFunc(have, func(a, b seen) int { return cmp.Compare(a.revision, b.revision) })
		return have
	}
}

// proxied is what kube-proxy knows of shop/web.
type proxied struct {
	service *corev1.Service
	slices  map[string]*discoveryv1.EndpointSlice
}

func (s *proxied) see(e seen) {
	if s.slices == nil {
		s.slices = map[string]*discoveryv1.EndpointSlice{}
	}
	switch {
	case e.service != nil && e.service.Name == api.DerivedServiceName("shop", "web"):
		s.service = e.service
	case e.slice != nil && e.gone:
		delete(s.slices, e.slice.Name)
	case e.slice != nil:
		s.slices[e.slice.Name] = e.slice
	}
}

// without returns the ports of the derived Service that have no endpoints.
func (s *proxied) without() (none []string) {
	for _, p := range s.service.Spec.Ports {
		found := false
		for _, slice := range s.slices {
			found = found || slice.Labels[discoveryv1.LabelServiceName] == s.service.Name && len(slice.Endpoints) > 0 &&
				slices.ContainsFunc(slice.Ports, func(o discoveryv1.EndpointPort) bool { return *o.Name == p.Name && *o.Protocol == p.Protocol })
		}
		if !found {
			none = append(none, fmt.Sprintf("%d (%q)", p.Port, p.Name))
		}
	}
	return none
}

// TestNoPortIsEverWithoutEndpoints changes the ports and their names in each way and checks every event that a watcher of both kinds
// sees. Rules C14 of
// docs/spec/control-plane.md and D29 of docs/spec/data-path.md.
func TestNoPortIsEverWithoutEndpoints(t *testing.T) {
	older := func(port string) string {
		return port80(records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5"), port)
	}
	younger := strings.NewReplacer("2026-01-01", "2026-01-02", "{name: http, port: 8080}", "{name: http, port: 8080}, {name: metrics, port: 9091}").
		Replace(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	more := strings.Replace(younger, "{name: http, port: 80}", "{name: http, port: 80}, {name: metrics, port: 9090}", 1)
	service := func(exported string) string { return strings.Split(exported, "\n---\n")[0] }
	endpoints := func(exported string) string { return strings.Split(exported, "\n---\n")[1] }
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(older(""), younger)
	w.start(Options{})
	kube.Eventually(t, w.portsAre("tcp-80:80", 2))
	for _, step := range []struct {
		name   string
		do     func()
		want   string
		slices int
	}{
		{"a later export adds a port", func() { w.onHub(more) }, "tcp-80:80 metrics:9090", 2},
		{"and takes it back", func() { w.onHub(younger) }, "tcp-80:80", 2},
		{"the owner names its port, and the record of the endpoints follows", func() {
			w.onHub(service(older("named")))
			kube.Eventually(t, w.portsAre("named:80", 2))
			w.onHub(endpoints(older("named")))
		}, "named:80", 2},
		{"the oldest leaves", func() { w.withdraw(service(older("named"))) }, "http:80", 1},
	} {
		t.Run(step.name, func(t *testing.T) {
			w.t = t
			events := w.watchPorts()
			step.do()
			kube.Eventually(t, w.portsAre(step.want, step.slices))
			var now proxied
			for _, e := range events() {
				now.see(e)
				if e.revision == 0 {
					continue // of the objects that were there before
				}
				if none := now.without(); none != nil {
					t.Errorf("at revision %d no endpoints have port %s", e.revision, strings.Join(none, ", "))
				}
			}
		})
	}
}

// portsAre returns a condition: the derived Service's and the ServiceImport's ports, and the number of slices.
func (w *world) portsAre(want string, n int) func() error {
	return func() error {
		o := w.objects("shop", "web")
		if o.derived == nil || o.serviceImport == nil {
			return fmt.Errorf("not all there: %+v", o)
		}
		var derived, imported []string
		for _, p := range o.derived.Spec.Ports {
			derived = append(derived, fmt.Sprint(p.Name, ":", p.Port))
		}
		for _, p := range o.serviceImport.Spec.Ports {
			imported = append(imported, fmt.Sprint(p.Name, ":", p.Port))
		}
		if got := strings.Join(derived, " "); got != want || strings.Join(imported, " ") != want || len(o.slices) != n {
			return fmt.Errorf("ports are %s, the ServiceImport's %v, %d slices", got, imported, len(o.slices))
		}
		return nil
	}
}

// A port has both names for a second before the Service changes, and for ten after, because watchers may see one kind of object later
// than the other. Rule D29 of docs/spec/data-path.md.
func TestBothNamesWhileAPortIsRenamed(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	g.hub.put(memberAt("a", "zone-0"))
	service, endpoints := exportedBy("a", mcsv1beta1.ClusterSetIP, 1), endpointsOf("a", 1, 0, 1)
	g.hub.put(service)
	g.hub.put(endpoints)
	g.reconcile(t)
	names := func() string { // the Service's ports, the slices' ports, the ServiceImport's ports
		t.Helper()
		_, cur := g.gathered(t)
		var all []string
		for _, p := range cur.Derived.Spec.Ports {
			all = append(all, p.Name)
		}
		all = append(all, "/")
		for _, s := range cur.Slices {
			for _, p := range s.Ports {
				all = append(all, fmt.Sprint(*p.Name, ":", *p.Port))
			}
		}
		all = append(all, "/")
		for _, p := range cur.ServiceImport.Spec.Ports {
			all = append(all, p.Name)
		}
		return strings.Join(all, " ")
	}
	rename := func(name string) {
		service, endpoints = service.DeepCopy(), endpoints.DeepCopy()
		service.Spec.Ports[0].Name, endpoints.Spec.Ports[0].Name = name, &name
	}
	for _, step := range []struct {
		what  string
		do    func()
		want  string
		again time.Duration
	}{
		{"imported", func() {}, "http / http:8080 / http", 0},
		{"the Service's record is here", func() { rename("web"); g.hub.put(service) }, "http / web:8080 http:8080 / http", settleFor},
		{"almost settled", func() { g.clock.Step(settleFor - 1) }, "http / web:8080 http:8080 / http", 1},
		{"settled", func() { g.clock.Step(1) }, "web / web:8080 http:8080 / web", formerNamesFor},
		{"the endpoints' record is here", func() { g.hub.put(endpoints) }, "web / web:8080 http:8080 / web", formerNamesFor},
		{"renamed again", func() { rename("w3"); g.hub.put(service); g.hub.put(endpoints) }, "web / w3:8080 http:8080 web:8080 / web", settleFor},
		{"settled again", func() { g.clock.Step(settleFor) }, "w3 / w3:8080 http:8080 web:8080 / w3", formerNamesFor},
		{"almost done", func() { g.clock.Step(formerNamesFor - 1) }, "w3 / w3:8080 http:8080 web:8080 / w3", 1},
		{"done", func() { g.clock.Step(1) }, "w3 / w3:8080 / w3", 0},
	} {
		step.do()
		result := g.reconcile(t)
		if got := names(); got != step.want || result.RequeueAfter != step.again {
			t.Errorf("%s: %s, again in %s; want %s, %s", step.what, got, result.RequeueAfter, step.want, step.again)
		}
	}
}

// A Service whose change is refused keeps the ports that it has, and slices aren't written over and over.
func TestARefusedRenameKeepsThePorts(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	g.hub.put(memberAt("a", "zone-0"))
	service, endpoints := exportedBy("a", mcsv1beta1.ClusterSetIP, 1), endpointsOf("a", 1, 0, 1)
	service.Spec.Ports = append(service.Spec.Ports, clustersetv1alpha1.ServicePort{Name: "old", Protocol: corev1.ProtocolTCP, Port: 81})
	old, port := "old", int32(8081)
	endpoints.Spec.Ports = append(endpoints.Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &old, Protocol: endpoints.Spec.Ports[0].Protocol, Port: &port})
	g.hub.put(service)
	g.hub.put(endpoints)
	g.reconcile(t)
	g.local.client = refusing{g.here, "Service"}
	service, endpoints = service.DeepCopy(), endpoints.DeepCopy()
	service.Spec.Ports, endpoints.Spec.Ports = service.Spec.Ports[:1], endpoints.Spec.Ports[:1]
	web := "web"
	service.Spec.Ports[0].Name, endpoints.Spec.Ports[0].Name = web, &web
	g.hub.put(service)
	g.hub.put(endpoints)
	for i := range 5 {
		g.here.writes = nil
		_, err := g.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}})
		if i >= 3 && (err == nil || slices.ContainsFunc(g.here.writes, func(w string) bool { return strings.Contains(w, "EndpointSlice") })) {
			t.Errorf("error %v, wrote %v", err, g.here.writes)
		}
		g.clock.Step(settleFor)
	}
	_, cur := g.gathered(t)
	var have []string
	for _, p := range cur.Slices[0].Ports {
		have = append(have, *p.Name)
	}
	if !slices.Equal(have, []string{"web", "http", "old"}) {
		t.Errorf("slices have the ports %v", have)
	}
}

// refusing is an API server that refuses every change of objects of a kind.
type refusing struct {
	*shelf
	kind string
}

func (r refusing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if kindOf(o) == r.kind {
		return apierrors.NewForbidden(schema.GroupResource{Resource: r.kind}, o.GetName(), errors.New("no"))
	}
	return r.shelf.Update(ctx, o, opts...)
}
