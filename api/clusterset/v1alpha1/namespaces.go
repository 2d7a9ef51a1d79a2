package v1alpha1

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// MaxNamespaces is how many namespaces a cluster tells the set of. One that has more tells of none.
const MaxNamespaces = 512

// Namespaces are the hashes of a cluster's namespaces, sorted (rule C77 of docs/spec/control-plane.md). They are hashes so that those who may
// read MemberClusters can't read names that they don't know; they can try names that they guess.
type Namespaces []uint32

// NamespaceDigest returns the namespaces as they are told. It is empty if there are too many.
func NamespaceDigest(names []string) string {
	if len(names) > MaxNamespaces {
		return ""
	}
	hashes := make(Namespaces, len(names))
	for i, name := range names {
		hashes[i] = namespaceHash(name)
	}
	slices.Sort(hashes)
	var all []byte
	for _, hash := range slices.Compact(hashes) {
		all = binary.BigEndian.AppendUint32(all, hash)
	}
	return base64.RawStdEncoding.EncodeToString(all)
}

// ParseNamespaces reads a digest. It returns nil if that says nothing, or isn't one.
func ParseNamespaces(digest string) Namespaces {
	if len(digest) > base64.RawStdEncoding.EncodedLen(4*MaxNamespaces) {
		return nil
	}
	all, err := base64.RawStdEncoding.Strict().DecodeString(digest)
	if err != nil || len(all)%4 != 0 {
		return nil
	}
	var hashes Namespaces
	for ; len(all) > 0; all = all[4:] {
		hashes = append(hashes, binary.BigEndian.Uint32(all))
	}
	if !slices.IsSorted(hashes) {
		return nil
	}
	return hashes
}

// Lack reports whether a namespace certainly isn't there. If nothing is known, it may be.
func (n Namespaces) Lack(namespace string) bool {
	_, found := slices.BinarySearch(n, namespaceHash(namespace))
	return len(n) > 0 && !found
}

func namespaceHash(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}
