package importer

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// objects are the member's objects for one service.
type objects struct {
	serviceImport *mcsv1beta1.ServiceImport
	derived       *corev1.Service
	global        *fabedgev1alpha1.GlobalService
	slices        []discoveryv1.EndpointSlice
}

func (o objects) empty() bool {
	return o.serviceImport == nil && o.derived == nil && o.global == nil && len(o.slices) == 0
}

func (w *world) objects(ns, name string) objects {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), kube.Patience)
	defer cancel()
	find := func(name string, o client.Object) bool {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return err == nil
	}
	var o objects
	imp, derived, global := &mcsv1beta1.ServiceImport{}, &corev1.Service{}, &fabedgev1alpha1.GlobalService{}
	if find(name, imp) {
		o.serviceImport = imp
	}
	if find(api.DerivedServiceName(ns, name), derived) {
		o.derived = derived
	}
	if find(name, global) {
		o.global = global
	}
	var all discoveryv1.EndpointSliceList
	if err := w.client.List(ctx, &all, client.InNamespace(ns)); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range all.Items {
		if strings.Contains(s.Name, "-"+name+"-") {
			o.slices = append(o.slices, s)
		}
	}
	return o
}

// imported waits until a service is completely imported from that many clusters, and returns its objects.
func (w *world) imported(ns, name string, clusters int) objects {
	w.t.Helper()
	var o objects
	kube.Eventually(w.t, func() error {
		o = w.objects(ns, name)
		switch {
		case o.serviceImport == nil || o.derived == nil || o.global == nil:
			return fmt.Errorf("not all there: %+v", o)
		case len(o.slices) != clusters || len(o.serviceImport.Status.Clusters) != clusters || len(o.global.Spec.Endpoints) != clusters:
			return fmt.Errorf("%d slices, import of %v, GlobalService of %+v: want %d clusters", len(o.slices),
				o.serviceImport.Status.Clusters, o.global.Spec.Endpoints, clusters)
		case !meta.IsStatusConditionTrue(o.serviceImport.Status.Conditions, "Ready"):
			return fmt.Errorf("conditions are %v", o.serviceImport.Status.Conditions)
		}
		return nil
	})
	return o
}

func (w *world) gone(ns, name string) {
	w.t.Helper()
	kube.Eventually(w.t, func() error {
		if o := w.objects(ns, name); !o.empty() {
			return fmt.Errorf("still there: %+v", o)
		}
		return nil
	})
}

// quiet waits until the importer has reconciled at least that many services since it started, and none for a while.
func (w *world) quiet(run *running, atLeast float64) {
	w.t.Helper()
	last, since := -1.0, time.Now()
	kube.Eventually(w.t, func() error {
		if n := reconciles(w.t) - run.reconcilesNow; n != last {
			last, since = n, time.Now()
		}
		if last < atLeast || time.Since(since) < time.Second {
			return fmt.Errorf("worked on %v services, the last %s ago", last, time.Since(since))
		}
		return nil
	})
}
