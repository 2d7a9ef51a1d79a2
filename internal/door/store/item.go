package store

import (
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// item is an object on its way through a Reflector: where it is on the hub, and what is kept of it.
type item struct {
	metav1.ObjectMeta
	value any // a record or a MemberCluster; nil: nothing
}

// GetObjectKind implements runtime.Object.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. An item never changes.
func (i *item) DeepCopyObject() runtime.Object { return i }

func itemOf(o client.Object, value any) *item {
	return &item{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion()}, value}
}

// events are those of an open watch, whose objects become items as they are decoded. While it lists, objects that are left out are dropped.
type events struct {
	watch.Interface
	feed    *feed
	listing bool
}

// decoded returns a watch of items.
func (f *feed) decoded(w watch.Interface, listing bool) watch.Interface {
	f.setLost(time.Time{})
	return watch.NewStreamWatcher(&events{w, f, listing}, nil) // it reports no errors but the end
}

// Decode implements watch.Decoder.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	for is := range e.ResultChan() {
		o, ok := is.Object.(client.Object)
		if !ok {
			return is.Type, is.Object, nil // an error
		}
		switch is.Type {
		case watch.Bookmark:
			e.listing = false
			i := itemOf(o, nil)
			i.Annotations = o.GetAnnotations() // they say that a list ends
			return is.Type, i, nil
		case watch.Deleted:
			return is.Type, itemOf(o, nil), nil
		}
		if value := e.feed.compact(o, e.listing); value != nil || !e.listing {
			return is.Type, itemOf(o, value), nil
		}
	}
	return "", nil, io.EOF
}

// Close implements watch.Decoder.
func (e *events) Close() {
	e.feed.setLost(time.Now())
	e.Stop()
}
