package v1alpha1

import (
	"fmt"
	"testing"
)

// C77 of docs/spec/control-plane.md: the digest is bounded, and one that isn't valid says nothing.
func TestNamespaceDigest(t *testing.T) {
	var names []string
	for i := range MaxNamespaces {
		names = append(names, fmt.Sprint("n", i))
	}
	digest := NamespaceDigest(names)
	if len(digest) > 2731 {
		t.Errorf("%d characters", len(digest))
	}
	n := ParseNamespaces(digest)
	for _, name := range names {
		if n.Lack(name) {
			t.Fatalf("lacks %s", name)
		}
	}
	if !n.Lack("shop") {
		t.Error("has a namespace that isn't there")
	}
	for _, says := range []string{"", NamespaceDigest(append(names, "more")), "*", "AAAA", "AAAAAg AAAAAQ", "AAAAAgAAAAE", digest + digest} {
		if ParseNamespaces(says).Lack("shop") {
			t.Errorf("%.20q says that a namespace is missing", says)
		}
	}
}
