package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// fakeHub is an API server that keeps all changes since its last compaction.
type fakeHub struct {
	client.WithWatch
	noStreams bool // it doesn't support watches that begin with a list, and has small pages

	mu        sync.Mutex
	version   int
	oldest    int // the oldest version that a watch can go on from
	objects   map[object]client.Object
	history   []event
	fails     error           // of all requests
	forbidden map[string]bool // namespaces
	silent    map[string]bool // namespaces in which requests wait
	held      bool            // lists wait before their end
	breaks    bool            // lists never come to their end
	lag       int             // the version that the API server has reached which opens watches now; 0: it doesn't lag
	changed   chan struct{}   // closed with each change
	cut       chan struct{}   // closed to end all watches
	requests  []string
}

type object struct {
	kind            kind
	namespace, name string
}

type event struct {
	watch.EventType
	at      object
	is      client.Object
	version int
}

func newHub() *fakeHub {
	return &fakeHub{
		version: 100, objects: map[object]client.Object{}, forbidden: map[string]bool{}, silent: map[string]bool{},
		changed: make(chan struct{}), cut: make(chan struct{}),
	}
}

// do changes the hub.
func (h *fakeHub) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func kindOf(o client.Object) kind {
	switch o.(type) {
	case *clustersetv1alpha1.ExportedService:
		return services
	case *clustersetv1alpha1.ExportedEndpoints:
		return endpoints
	}
	return members
}

// put writes an object.
func (h *fakeHub) put(o client.Object) {
	h.do(func() {
		at, what := object{kindOf(o), o.GetNamespace(), o.GetName()}, watch.Modified
		if h.objects[at] == nil {
			what = watch.Added
		}
		h.version++
		o.SetResourceVersion(strconv.Itoa(h.version))
		h.objects[at] = o
		h.history = append(h.history, event{what, at, o, h.version})
	})
}

func (h *fakeHub) remove(at object) {
	h.do(func() {
		if o := h.objects[at]; o != nil {
			h.version++
			delete(h.objects, at)
			o = o.DeepCopyObject().(client.Object)
			o.SetResourceVersion(strconv.Itoa(h.version))
			h.history = append(h.history, event{watch.Deleted, at, o, h.version})
		}
	})
}

// backup returns a function that restores the hub as it is now.
func (h *fakeHub) backup() (restore func()) {
	version, objects, history := h.version, maps.Clone(h.objects), slices.Clone(h.history)
	return func() {
		h.do(func() { h.version, h.objects, h.history = version, maps.Clone(objects), slices.Clone(history) })
	}
}

// await waits until a condition holds.
func (h *fakeHub) await(ctx context.Context, holds func() bool) error {
	for {
		h.mu.Lock()
		done, changed := holds(), h.changed
		h.mu.Unlock()
		if done {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// ask notes a request, and returns its error.
func (h *fakeHub) ask(ctx context.Context, what string, k kind, namespace string, options metav1.ListOptions) error {
	h.mu.Lock()
	h.requests = append(h.requests, strings.TrimRight(fmt.Sprint(what, " ", k, " ", strings.TrimPrefix(namespace, "clusterset-member-"), ""), " "))
	h.mu.Unlock()
	if err := h.await(ctx, func() bool { return !h.silent[namespace] }); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	version, _ := strconv.Atoi(options.ResourceVersion)
	switch {
	case h.fails != nil:
		return h.fails
	case h.forbidden[namespace]:
		return apierrors.NewForbidden(schema.GroupResource{Resource: k.String()}, "", errors.New("no"))
	case what == "watch" && version < h.oldest:
		return apierrors.NewResourceExpired("too old")
	case what == "watch" && h.lag > 0 && version > h.lag:
		ahead := apierrors.NewTimeoutError("Too large resource version", 1)
		ahead.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		return ahead
	case what == "stream" && h.noStreams:
		return apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	case what != "watch" && options.ResourceVersion != "":
		return errors.New("a list that isn't consistent")
	}
	return nil
}

// all returns the objects of a request, sorted.
func (h *fakeHub) all(k kind, namespace string) (all []client.Object) {
	for at, o := range h.objects {
		if at.kind == k && (namespace == "" || at.namespace == namespace) {
			all = append(all, o.DeepCopyObject().(client.Object))
		}
	}
	slices.SortFunc(all, func(a, b client.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// requestOf returns what is asked for.
func requestOf(list client.ObjectList, options []client.ListOption) (k kind, namespace string, raw metav1.ListOptions) {
	for reflect.TypeOf(k.list()) != reflect.TypeOf(list) {
		k++
	}
	of := (&client.ListOptions{}).ApplyOptions(options)
	return k, of.Namespace, *of.AsListOptions()
}

// List implements hub.
func (h *fakeHub) List(ctx context.Context, page client.ObjectList, of ...client.ListOption) error {
	k, namespace, options := requestOf(page, of)
	if err := errors.Join(h.ask(ctx, "list", k, namespace, options), h.await(ctx, func() bool { return !h.held })); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.breaks {
		return apierrors.NewTimeoutError("slow", 1)
	}
	all, from := h.all(k, namespace), 0
	if options.Continue != "" {
		from, _ = strconv.Atoi(options.Continue)
	}
	page.SetResourceVersion(strconv.Itoa(h.version))
	to := min(from+2, len(all))
	if options.Limit == 0 {
		to = len(all)
	}
	if to < len(all) {
		page.SetContinue(strconv.Itoa(to))
	}
	var items []runtime.Object
	for _, o := range all[from:to] {
		items = append(items, o)
	}
	return meta.SetList(page, items)
}

// Watch implements hub.
func (h *fakeHub) Watch(ctx context.Context, list client.ObjectList, of ...client.ListOption) (watch.Interface, error) {
	k, namespace, options := requestOf(list, of)
	what := "watch"
	if options.SendInitialEvents != nil {
		what = "stream"
	}
	if err := h.ask(ctx, what, k, namespace, options); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	after, _ := strconv.Atoi(options.ResourceVersion)
	var initial []watch.Event
	if what == "stream" {
		after = h.version
		for _, o := range h.all(k, namespace) {
			initial = append(initial, watch.Event{Type: watch.Added, Object: o})
		}
		end := bookmark(k, after)
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		initial = append(initial, watch.Event{Type: watch.Bookmark, Object: end.(runtime.Object)})
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{events: make(chan watch.Event), cancel: cancel, lags: h.lag > 0}
	go h.serve(ctx, s, h.cut, initial, func(e event) bool {
		return e.version > after && e.at.kind == k && (namespace == "" || e.at.namespace == namespace)
	})
	return s, nil
}

func bookmark(k kind, version int) metav1.Object {
	o := []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.MemberCluster{}}[k]
	o.SetResourceVersion(strconv.Itoa(version))
	return o
}

// stream is a watch.
type stream struct {
	events chan watch.Event
	cancel context.CancelFunc
	lags   bool // it is of the API server that lags
}

func (s *stream) ResultChan() <-chan watch.Event { return s.events }
func (s *stream) Stop()                          { s.cancel() }

func (h *fakeHub) serve(ctx context.Context, s *stream, cut chan struct{}, initial []watch.Event, wanted func(event) bool) {
	defer close(s.events)
	send := func(e watch.Event) bool {
		select {
		case s.events <- e:
			return true
		case <-ctx.Done():
		case <-cut:
		}
		return false
	}
	for i, e := range initial {
		if i == len(initial)-1 && (h.await(ctx, func() bool { return !h.held }) != nil || h.breaks) {
			return
		}
		if !send(e) {
			return
		}
	}
	for sent := 0; ; {
		h.mu.Lock()
		changed, more := h.changed, slices.Clone(h.history[min(sent, len(h.history)):])
		if s.lags && h.lag > 0 {
			more = slices.DeleteFunc(more, func(e event) bool { return e.version > h.lag })
		}
		sent = min(sent, len(h.history)) + len(more)
		h.mu.Unlock()
		for _, e := range more {
			if wanted(e) && !send(watch.Event{Type: e.EventType, Object: e.is.DeepCopyObject()}) {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-cut:
			return
		case <-changed:
		}
	}
}

// asked returns the requests for ExportedServices since the last call.
func (h *fakeHub) asked() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		if what, of, ok := strings.Cut(r, " exportedservices"); ok {
			all = append(all, strings.ReplaceAll(what+of, " ", ":"))
		}
	}
	h.requests = nil
	slices.Sort(all)
	return all
}
