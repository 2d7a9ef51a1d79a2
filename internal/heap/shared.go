package heap

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"unique"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// shared returns the string that all objects with an equal one share. It is for strings that many objects have: one that a single object has
// takes more memory than before.
func shared(s string) string { return unique.Make(s).Value() }

var yes, no = true, false

func sharedBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return &yes
	default:
		return &no
	}
}

// recent has some values that objects had recently, so that the next objects can have the same ones. It forgets a value for another with the
// same remainder of its hash, so that it never holds many that nothing else has.
type recent[T any] struct {
	equal func(a, b T) bool
	mu    sync.Mutex
	of    [512]T
}

func (r *recent[T]) same(hash uint64, v T) T {
	r.mu.Lock()
	defer r.mu.Unlock()
	had := &r.of[hash%uint64(len(r.of))]
	if !r.equal(*had, v) {
		*had = v
	}
	return *had
}

var (
	seed        = maphash.MakeSeed()
	labelMaps   = recent[map[string]string]{equal: maps.Equal[map[string]string, map[string]string]}
	slicePorts  = recent[[]discoveryv1.EndpointPort]{equal: samePorts[discoveryv1.EndpointPort]}
	recordPorts = recent[[]clustersetv1alpha1.EndpointPort]{equal: samePorts[clustersetv1alpha1.EndpointPort]}
)

// small is how many labels or ports of an object are shared at most: a map of more is larger, and rarely the same in two objects.
const small = 8

// sharedLabels returns the labels with strings that are shared with other objects, and if they are few, as a map that is.
func sharedLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	own, hash := make(map[string]string, len(labels)), uint64(0)
	for key, value := range labels {
		own[shared(key)] = shared(value)
		hash += maphash.String(seed, key) ^ maphash.String(seed, "="+value)
	}
	if len(own) > small {
		return own
	}
	return labelMaps.same(hash, own)
}

type port interface {
	discoveryv1.EndpointPort | clustersetv1alpha1.EndpointPort
}

// sharedPorts returns a list of ports that is shared with other objects.
func sharedPorts[P port](r *recent[[]P], all []P) []P {
	if len(all) == 0 || len(all) > small {
		return slices.Clone(all)
	}
	hash := uint64(0)
	for _, p := range all {
		p := discoveryv1.EndpointPort(p)
		if p.Name != nil {
			hash = hash*31 + maphash.String(seed, *p.Name)
		}
		if p.Port != nil {
			hash = hash*31 + uint64(*p.Port) //nolint:gosec // any number will do
		}
	}
	return r.same(hash, slices.Clone(all))
}

func samePorts[P port](a, b []P) bool {
	return slices.EqualFunc(a, b, func(a, b P) bool {
		is, was := discoveryv1.EndpointPort(a), discoveryv1.EndpointPort(b)
		return same(is.Name, was.Name) && same(is.Protocol, was.Protocol) && same(is.Port, was.Port) && same(is.AppProtocol, was.AppProtocol)
	})
}

func sameHints(a, b *discoveryv1.EndpointHints) bool {
	return a == b || a != nil && b != nil && slices.Equal(a.ForZones, b.ForZones) && slices.Equal(a.ForNodes, b.ForNodes)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func sharedOwners(all []metav1.OwnerReference) {
	for i := range all {
		o := &all[i]
		o.APIVersion, o.Kind = shared(o.APIVersion), shared(o.Kind)
		o.Controller, o.BlockOwnerDeletion = sharedBool(o.Controller), sharedBool(o.BlockOwnerDeletion)
	}
}
