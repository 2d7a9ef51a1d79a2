package importer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Whatever takes an address away: the name goes first, the address last, and in between no name leads to an address that anybody may get. Rules
// C46 and C85 of docs/spec/control-plane.md.
func TestTheNameGoesFirstAndTheAddressLast(t *testing.T) {
	const gone = "delete GlobalService, delete ServiceImport, delete EndpointSlice, delete Service"
	withdraw := func(g *rig) {
		g.withdraw(exportedBy("a", "", 1))
		g.withdraw(endpointsOf("a", 1, 0, 1))
	}
	becomes := func(kind mcsv1beta1.ServiceImportType) func(*rig) {
		return func(g *rig) {
			s := exportedBy("a", kind, 1)
			s.Spec.Endpoints = g.hub.get(s).(*clustersetv1alpha1.ExportedService).Spec.Endpoints
			g.hub.put(s)
		}
	}
	hold := func(kinds ...client.Object) func(*rig) {
		return func(g *rig) {
			for _, kind := range kinds {
				for _, o := range g.here.of(kind).List() {
					held := o.(client.Object).DeepCopyObject().(client.Object)
					held.SetFinalizers([]string{"example.com/hold"})
					g.here.put(held)
				}
			}
		}
	}
	take := func(g *rig) {
		theirs := g.here.get(importOf(web)).DeepCopyObject().(client.Object)
		theirs.SetLabels(nil)
		g.here.put(theirs)
	}
	for _, c := range []struct {
		name   string
		from   mcsv1beta1.ServiceImportType
		before func(*rig) // somebody else does this
		do     func(*rig)
		want   string // the writes, but for statuses
	}{
		{"un-exported", mcsv1beta1.ClusterSetIP, nil, withdraw, gone},
		{"un-exported, headless", mcsv1beta1.Headless, nil, withdraw, "delete GlobalService, delete ServiceImport, delete EndpointSlice"},
		{"the namespace is excluded", mcsv1beta1.ClusterSetIP, nil, func(g *rig) { g.options.ExcludeNamespaces = []string{"shop"} }, gone},
		{"the namespace is being deleted", mcsv1beta1.ClusterSetIP, nil, func(g *rig) {
			g.here.put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &metav1.Time{Time: g.clock.Now()}}})
		}, gone},
		{
			"to Headless", mcsv1beta1.ClusterSetIP, nil, becomes(mcsv1beta1.Headless),
			"update ServiceImport, update EndpointSlice, delete Service, update GlobalService",
		},
		{
			"to ClusterSetIP", mcsv1beta1.Headless, nil, becomes(mcsv1beta1.ClusterSetIP),
			"create Service, update ServiceImport, update EndpointSlice, update GlobalService",
		},
		{
			"no data path", mcsv1beta1.ClusterSetIP, nil, func(g *rig) { g.options.DataPath = desired.DataPathNone },
			"update ServiceImport, update EndpointSlice, delete Service",
		},
		{
			"a finalizer of the ServiceImport", mcsv1beta1.ClusterSetIP, hold(&mcsv1beta1.ServiceImport{}), withdraw,
			"delete GlobalService, delete ServiceImport, delete EndpointSlice",
		},
		{
			"finalizers of all", mcsv1beta1.ClusterSetIP,
			hold(&mcsv1beta1.ServiceImport{}, &fabedgev1alpha1.GlobalService{}, &discoveryv1.EndpointSlice{}, &corev1.Service{}), withdraw,
			"delete GlobalService, delete ServiceImport, delete EndpointSlice",
		},
		{"a slice's, to Headless", mcsv1beta1.ClusterSetIP, func(g *rig) {
			g.hub.put(endpointsOf("a", 1, 1, 1))
			g.reconcile(t)
			hold(&discoveryv1.EndpointSlice{})(g)
		}, func(g *rig) {
			becomes(mcsv1beta1.Headless)(g)
			g.withdraw(endpointsOf("a", 1, 1, 1))
		}, "update ServiceImport, update EndpointSlice, delete EndpointSlice, delete Service, update GlobalService"},
		{"a slice's of an extended Service", mcsv1beta1.ClusterSetIP, func(g *rig) {
			g.here.put(extendedWeb("true"))
			g.options.ExtendEverywhere = true
			g.reconcile(t)
			hold(&discoveryv1.EndpointSlice{})(g)
		}, func(g *rig) { g.here.put(extendedWeb("false")) }, "delete EndpointSlice"},
		{"a GlobalService's, and they are skipped", mcsv1beta1.ClusterSetIP, hold(&fabedgev1alpha1.GlobalService{}), func(g *rig) {
			g.options.SkipGlobalServices = true
		}, "delete GlobalService"},
		{"deletions are refused", mcsv1beta1.ClusterSetIP, func(g *rig) { g.local.client = keeping{g.here} }, withdraw, "delete GlobalService, delete EndpointSlice"},
		{"somebody has taken the ServiceImport", mcsv1beta1.ClusterSetIP, take, withdraw, "delete GlobalService, delete EndpointSlice"},
		{"somebody takes the ServiceImport", mcsv1beta1.ClusterSetIP, nil, take, "delete EndpointSlice"},
		{"and it has another address", mcsv1beta1.ClusterSetIP, take, func(g *rig) {
			theirs := g.here.get(importOf(web)).DeepCopyObject().(*mcsv1beta1.ServiceImport)
			theirs.Spec.IPs = []string{"10.96.0.8"}
			g.here.put(theirs)
		}, "delete EndpointSlice, delete Service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(Options{DataPath: desired.DataPathPods})
			g.hub.put(memberAt("a", "zone-0"))
			g.hub.put(exportedBy("a", c.from, 1))
			g.hub.put(endpointsOf("a", 1, 0, 1))
			g.reconcile(t)
			if c.before != nil {
				c.before(g)
			}
			g.here.wrote = func() { g.isNoLie(t) }
			c.do(g)
			if got := g.written(t); got != c.want {
				t.Errorf("wrote %s\nwant %s", got, c.want)
			}
		})
	}
}

// written reconciles shop/web, and returns what is written meanwhile but for statuses.
func (g *rig) written(t *testing.T) string {
	t.Helper()
	g.here.writes = nil
	for range 3 {
		_, _ = g.Reconcile(t.Context(), reconcile.Request{NamespacedName: web}) // what is refused is an error
	}
	var writes []string
	for _, w := range g.here.writes {
		if what := w[:strings.LastIndex(w, " ")]; !strings.HasPrefix(what, "update status") {
			writes = append(writes, what)
		}
	}
	return strings.Join(writes, ", ")
}

func importOf(service client.ObjectKey) *mcsv1beta1.ServiceImport {
	return &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
}

// extendedWeb is this cluster's own Service of that name.
func extendedWeb(extend string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name, UID: "1", Annotations: map[string]string{api.KeyExtend: extend}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

// isNoLie checks what everybody can see after each write.
func (g *rig) isNoLie(t *testing.T) {
	t.Helper()
	imp, _ := g.here.get(importOf(web)).(*mcsv1beta1.ServiceImport)
	derived, _ := g.here.get(derivedOf(web)).(*corev1.Service)
	if imp == nil {
		return
	}
	if slices.Contains(imp.Spec.IPs, "10.96.0.9") && derived == nil { // the one address that a shelf gives
		t.Errorf("after %v, the name leads to %v, which anybody may get", g.here.writes, imp.Spec.IPs)
	}
}

// keeping refuses to delete ServiceImports.
type keeping struct{ *shelf }

func (k keeping) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if _, is := o.(*mcsv1beta1.ServiceImport); is {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceimports"}, o.GetName(), errors.New("names stay"))
	}
	return k.shelf.Delete(ctx, o, opts...)
}
