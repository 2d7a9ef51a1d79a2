package importer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/mcs"
)

// local is the member's own API server: cached reads, and writes only if something differs.
type local struct {
	// cache is the manager's. Its objects must not be changed, only copies of them.
	cache  client.Reader
	slices *slicesOf
	// live reads past the cache, for when the cache is behind.
	live    client.Reader
	client  client.Client
	imports mcs.Version
}

// get reads an object from the cache. found is false if there is none.
func get[T client.Object](ctx context.Context, l *local, namespace, name string, into T, opts ...client.GetOption) (found bool, err error) {
	err = l.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into, opts...)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s/%s: %w", kindOf(into), namespace, name, err)
	}
	return true, nil
}

// getImport reads a ServiceImport in the version that is served. It returns nil if there is none. It belongs to the cache.
func (l *local) getImport(ctx context.Context, namespace, name string) (*mcsv1beta1.ServiceImport, error) {
	o := l.imports.NewImport()
	if found, err := get(ctx, l, namespace, name, o, client.UnsafeDisableDeepCopy); err != nil || !found {
		return nil, err
	}
	return mcs.DecodeImport(o)
}

// whole returns slices of the cache with their content, which the API server has. One that is gone is left out.
func (l *local) whole(ctx context.Context, all []*discoveryv1.EndpointSlice) (whole []*discoveryv1.EndpointSlice, _ error) {
	for _, s := range all {
		if desired.Stripped(s) {
			live := &discoveryv1.EndpointSlice{}
			switch err := l.live.Get(ctx, client.ObjectKeyFromObject(s), live); {
			case apierrors.IsNotFound(err):
				continue
			case err != nil:
				return nil, fmt.Errorf("get EndpointSlice %s: %w", client.ObjectKeyFromObject(s), err)
			}
			s = live
		}
		whole = append(whole, s)
	}
	return whole, nil
}

// object is a pointer to an API object.
type object[T any] interface {
	*T
	client.Object
}

// ensure applies change to an object and returns the result. current is the object from the cache, or nil if there is none; then fresh is created.
// Nothing is written if change changes nothing. An object that isn't ours is left alone and returned as a foreignError.
func ensure[T any, P object[T]](ctx context.Context, l *local, current, fresh P, change func(P)) (P, error) {
	return put(ctx, l, current, fresh, change, func(is, updated P) bool { return equality.Semantic.DeepEqual(is, updated) })
}

// put is ensure with the caller's own comparison: all of an object needn't be compared if it is known what changes.
func put[T any, P object[T]](ctx context.Context, l *local, current, fresh P, change func(P), same func(is, updated P) bool) (P, error) {
	if current == nil {
		change(fresh)
		err := l.write(ctx, "create", fresh, func(o client.Object) error {
			return l.client.Create(ctx, o, client.FieldOwner(api.FieldManagerImporter))
		})
		if !apierrors.IsAlreadyExists(err) {
			return fresh, err
		}
		// Either the cache hasn't seen our last write yet, or it leaves out objects that aren't ours.
		live, getErr := getLive(ctx, l, fresh)
		if getErr != nil {
			return fresh, errors.Join(err, getErr)
		}
		current = live
	}
	if !desired.Owned(current) {
		return current, &foreignError{kindOf(current), current}
	}
	updated := current.DeepCopyObject().(P)
	change(updated)
	if same(current, updated) {
		return current, nil
	}
	return updated, l.update(ctx, updated)
}

// unequal is for put, of an object that is known to differ.
func unequal[T any](_, _ T) bool { return false }

func (l *local) update(ctx context.Context, o client.Object) error {
	return l.write(ctx, "update", o, func(o client.Object) error {
		return l.client.Update(ctx, o, client.FieldOwner(api.FieldManagerImporter))
	})
}

// getLive reads the object with o's name from the API server.
func getLive[T any, P object[T]](ctx context.Context, l *local, o P) (P, error) {
	if imp, ok := client.Object(o).(*mcsv1beta1.ServiceImport); ok {
		wire := l.imports.NewImport()
		if err := l.live.Get(ctx, client.ObjectKeyFromObject(imp), wire); err != nil {
			return o, err
		}
		decoded, err := mcs.DecodeImport(wire)
		if err != nil {
			return o, err
		}
		return client.Object(decoded).(P), nil
	}
	live := P(new(T))
	return live, l.live.Get(ctx, client.ObjectKeyFromObject(o), live)
}

// ensureStatus is ensure for the status of an object of ours that exists.
func ensureStatus[T client.Object](ctx context.Context, l *local, current T, change func(T)) error {
	updated := current.DeepCopyObject().(T)
	change(updated)
	if equality.Semantic.DeepEqual(current, updated) {
		return nil
	}
	return l.updateStatus(ctx, updated)
}

func (l *local) updateStatus(ctx context.Context, updated client.Object) error {
	err := l.write(ctx, "update status of", updated, func(o client.Object) error {
		return l.client.Status().Update(ctx, o, client.FieldOwner(api.FieldManagerImporter))
	})
	if imp, is := updated.(*mcsv1beta1.ServiceImport); is && apierrors.IsNotFound(err) {
		// Of a definition without the status subresource. The status is a part of the object then, and changes its generation.
		for i := range imp.Status.Conditions {
			if c := &imp.Status.Conditions[i]; c.ObservedGeneration == imp.Generation {
				c.ObservedGeneration++
			}
		}
		err = l.update(ctx, updated)
	}
	if apierrors.IsNotFound(err) {
		return nil // deleted meanwhile, or FabDNS's own GlobalService, which has no status subresource either
	}
	return err
}

// remove deletes an object of ours as the cache has it. A finalizer may keep it; then its last event brings us back.
func (l *local) remove(ctx context.Context, o client.Object) error {
	if !desired.Owned(o) || !o.GetDeletionTimestamp().IsZero() {
		return nil
	}
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := l.write(ctx, "delete", o, func(o client.Object) error {
		return l.client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	return client.IgnoreNotFound(err)
}

// write makes and counts one write, converting a ServiceImport to the served version and back.
func (l *local) write(ctx context.Context, verb string, o client.Object, do func(client.Object) error) error {
	wire := o
	imp, isImport := o.(*mcsv1beta1.ServiceImport)
	if isImport {
		encoded, err := l.imports.EncodeImport(imp)
		if err != nil {
			return err
		}
		wire = encoded
	}
	was := o.GetResourceVersion()
	if err := do(wire); err != nil {
		return fmt.Errorf("%s %s %s: %w", verb, kindOf(o), client.ObjectKeyFromObject(o), err)
	}
	if isImport && wire != o {
		written, err := mcs.DecodeImport(wire)
		if err != nil {
			return err
		}
		*imp = *written
	}
	if isImport && verb != "delete" && o.GetResourceVersion() == was {
		return nil // nothing was stored: the definition lacks what differs
	}
	writesCounter.WithLabelValues(kindOf(o), strings.ReplaceAll(strings.TrimSuffix(verb, " of"), " ", "_")).Inc()
	meterOf(ctx).wrote(verb, o)
	return nil
}

func kindOf(o client.Object) string { return reflect.TypeOf(o).Elem().Name() }

// sizeOfDeletion and sizeOfEvent are about how many bytes a deletion and an Event take in etcd.
const sizeOfDeletion, sizeOfEvent = 256, 1 << 10

// meter counts the bytes that a reconcile writes, and knows what it wrote.
type meter struct {
	bytes    atomic.Int64
	mu       sync.Mutex
	ended    bool
	versions []string // of the objects, as they were written
	early    []string // of others that events showed before the end: the answer to a write may come after its event
}

type meterKey struct{}

// metered returns a context in which writes are counted.
func metered(ctx context.Context, m *meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

func meterOf(ctx context.Context) *meter {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		return m
	}
	return &meter{}
}

// wrote counts an object that was written.
func (m *meter) wrote(verb string, o client.Object) {
	if verb == "delete" {
		m.bytes.Add(sizeOfDeletion)
		return
	}
	m.bytes.Add(int64(sizeOf(o)))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions = append(m.versions, o.GetResourceVersion())
}

// has reports whether the reconcile wrote an object in that version. Before its end that may not be known: then it is true, and end says more.
func (m *meter) has(version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := slices.Contains(m.versions, version)
	if !known && !m.ended {
		m.early = append(m.early, version)
	}
	return known || !m.ended
}

// end ends the reconcile, and reports whether events showed meanwhile what it didn't write.
func (m *meter) end() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	early := m.early
	m.ended, m.early = true, nil
	return slices.ContainsFunc(early, func(version string) bool { return !slices.Contains(m.versions, version) })
}

// sizeOf returns about how many bytes an object takes in etcd. Kubernetes' own kinds are stored in the form that Size is of.
func sizeOf(o client.Object) int {
	if sized, ok := o.(interface{ Size() int }); ok {
		return sized.Size()
	}
	meta := metav1.ObjectMeta{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), ManagedFields: o.GetManagedFields(), OwnerReferences: o.GetOwnerReferences()}
	size := 512 + meta.Size()
	switch o := o.(type) {
	case *fabedgev1alpha1.GlobalService:
		size += 128*len(o.Spec.Ports) + desired.SizeOfEndpoints(o)
	case *mcsv1beta1.ServiceImport:
		size += 128*len(o.Spec.Ports) + 64*(len(o.Spec.IPs)+len(o.Status.Clusters))
		for i := range o.Status.Conditions {
			size += 128 + len(o.Status.Conditions[i].Message)
		}
	}
	return size
}

// foreignRetry is when to check whether a foreign object is out of the way. Usually its own event triggers that, but the name
// of a derived Service that isn't ours doesn't say which service it blocks. And when to check whether the definition of ServiceImport was upgraded.
const foreignRetry = 5 * time.Minute

// staleRetry is when to retry after a write conflict. By then the cache has the other write.
const staleRetry = 200 * time.Millisecond

// foreignError is returned for an object with the name of one of ours that isn't ours. It isn't retried: the object's next
// event enqueues the service again.
type foreignError struct {
	kind   string
	object client.Object
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s exists and isn't the importer's; delete or rename it", e.kind, client.ObjectKeyFromObject(e.object))
}

// joined returns the errors that are joined in err.
func joined(err error) (all []error) {
	if of, is := err.(interface{ Unwrap() []error }); is {
		for _, e := range of.Unwrap() {
			all = append(all, joined(e)...)
		}
	} else if err != nil {
		all = append(all, err)
	}
	return all
}

// foreignErrors returns the foreignErrors among joined errors, and whether there are no others.
func foreignErrors(err error) (foreign []*foreignError, only bool) {
	all := joined(err)
	for _, e := range all {
		var f *foreignError
		if errors.As(e, &f) {
			foreign = append(foreign, f)
		}
	}
	return foreign, len(foreign) == len(all)
}

// isStale reports whether everything that failed did so because the cache was behind.
func isStale(err error) bool {
	return err != nil && !slices.ContainsFunc(joined(err), func(e error) bool {
		var foreign *foreignError
		return !apierrors.IsConflict(e) && !errors.As(e, &foreign)
	})
}
