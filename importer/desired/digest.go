package desired

import (
	"hash/maphash"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An agent's cache has of the importer's own EndpointSlices what finds and compares them: in place of their content, which takes a third of the memory
// of an agent that imports much, digests of it. Who needs what is stored in a slice reads that from the API server.

// digestKey is the annotation with the digests, which only the cache has.
const digestKey = "cache.clusterset.dev/digests"

var digestSeed = maphash.MakeSeed()

// Strip is a transform of a cache. It takes the managers of fields from each object, and from the importer's EndpointSlices their content.
func Strip(o any) (any, error) {
	if managed, ok := o.(metav1.Object); ok {
		managed.SetManagedFields(nil)
	}
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || !Owned(s) || Stripped(s) {
		return o, nil
	}
	content, endpoints := digests(s)
	s.Endpoints, s.Ports = nil, nil
	for _, key := range StoredKeys {
		delete(s.Annotations, key)
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, digestKey, content+" "+endpoints)
	return s, nil
}

// Stripped reports whether Strip took the content of a slice.
func Stripped(s *discoveryv1.EndpointSlice) bool { return s.Annotations[digestKey] != "" }

// CacheKeys are the annotations of a slice that are never written.
var CacheKeys = []string{digestKey}

// SameContent reports whether two slices have the same endpoints, ports and stored records. Either may be stripped.
func SameContent(a, b *discoveryv1.EndpointSlice) bool {
	is, _ := digests(a)
	other, _ := digests(b)
	return is == other
}

// sameEndpoints reports whether two slices have the same endpoints by what their own cluster says of them: addresses and conditions. Zones and hints may
// be ours. Either may be stripped.
func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	_, is := digests(a)
	_, other := digests(b)
	return is == other
}

func digests(s *discoveryv1.EndpointSlice) (content, endpoints string) {
	if Stripped(s) {
		content, endpoints, _ = strings.Cut(s.Annotations[digestKey], " ")
		return content, endpoints
	}
	is := discoveryv1.EndpointSlice{Endpoints: s.Endpoints, Ports: s.Ports}
	is.Annotations = Stored(s)
	var all, ours maphash.Hash
	all.SetSeed(digestSeed)
	ours.SetSeed(digestSeed)
	if data, err := is.Marshal(); err == nil { // it has only strings and numbers
		_, _ = all.Write(data)
	}
	for i := range s.Endpoints {
		c := s.Endpoints[i].Conditions
		maphash.WriteComparable(&ours, [3]bool{c.Ready == nil || *c.Ready, c.Serving == nil || *c.Serving, c.Terminating != nil && *c.Terminating})
		for _, address := range s.Endpoints[i].Addresses {
			maphash.WriteComparable(&ours, address)
		}
	}
	return strconv.FormatUint(all.Sum64(), 36), strconv.FormatUint(ours.Sum64(), 36)
}
