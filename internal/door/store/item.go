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

// item is an object on its way through a Reflector: where it is on the hub, and what is kept of it. It takes a tenth of the object's memory.
type item struct {
	metav1.Object            // has nothing
	namespace, name, version string
	annotations              map[string]string // of a bookmark
	value                    any               // a record or a MemberCluster; nil: nothing
}

var nothing = &metav1.ObjectMeta{}

// GetNamespace implements metav1.Object.
func (i *item) GetNamespace() string { return i.namespace }

// GetName implements metav1.Object.
func (i *item) GetName() string { return i.name }

// GetResourceVersion implements metav1.Object.
func (i *item) GetResourceVersion() string { return i.version }

// GetAnnotations implements metav1.Object.
func (i *item) GetAnnotations() map[string]string { return i.annotations }

// GetObjectKind implements runtime.Object.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. An item never changes.
func (i *item) DeepCopyObject() runtime.Object { return i }

func (f *feed) item(o client.Object, listing bool) *item {
	return &item{Object: nothing, namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion(), value: f.compact(o, listing)}
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
			return is.Type, &item{Object: nothing, version: o.GetResourceVersion(), annotations: o.GetAnnotations()}, nil
		case watch.Deleted:
			return is.Type, &item{Object: nothing, namespace: o.GetNamespace(), name: o.GetName(), version: o.GetResourceVersion()}, nil
		}
		if i := e.feed.item(o, e.listing); i.value != nil || !e.listing {
			return is.Type, i, nil
		}
	}
	return "", nil, io.EOF
}

// Close implements watch.Decoder.
func (e *events) Close() {
	e.feed.setLost(time.Now())
	e.Stop()
}
