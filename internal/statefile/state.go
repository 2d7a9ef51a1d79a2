package statefile

import (
	"fmt"
	"slices"
	"time"

	"github.com/clusterset/clusterset/internal/index"
)

// State is what a DNS server knew at a moment.
type State struct {
	// Known is when the objects were last known to be those of the API server.
	Known time.Time
	// Cluster is where they came from.
	Cluster Cluster
	// Serial is the last serial that was given out, or may have been: a server that is killed can't write its last. What
	// follows begins after it.
	Serial uint32
	// Namespaces are those whose services the server read, nil for all: of any other it knows nothing.
	Namespaces []string
	// Objects are in the order of Index.Objects.
	Objects []index.Object
}

// Covers reports whether the state says all about the services of the namespaces, nil for all.
func (s *State) Covers(namespaces []string) bool {
	if s.Namespaces == nil {
		return true
	}
	return namespaces != nil && !slices.ContainsFunc(namespaces, func(ns string) bool { return !slices.Contains(s.Namespaces, ns) })
}

// Cluster tells Kubernetes clusters apart, as far as is known.
type Cluster struct {
	// UID is that of the namespace kube-system, which no two clusters share. It takes an API server that answers.
	UID string `json:"uid,omitempty" cbor:"1,keyasint,omitempty"`
	// CAs are the SHA-256 sums of the certificates that the API server is trusted by, in hexadecimal. They are known without
	// it.
	CAs []string `json:"cas,omitempty" cbor:"2,keyasint,omitempty"`
	// Server is the API server's URL, which counts where there is no certificate to compare.
	Server string `json:"server,omitempty" cbor:"3,keyasint,omitempty"`
}

// Differs says what shows that c and o are two clusters, or "" where nothing does. While a CA is being replaced both are
// trusted, so that one in common is enough.
func (c Cluster) Differs(o Cluster) string {
	switch {
	case c.UID != "" && o.UID != "":
		if c.UID != o.UID {
			return fmt.Sprintf("its namespace kube-system has the UID %s, not %s", c.UID, o.UID)
		}
	case len(c.CAs) > 0 && len(o.CAs) > 0:
		if !slices.ContainsFunc(c.CAs, func(ca string) bool { return slices.Contains(o.CAs, ca) }) {
			return "its API server is trusted by another CA certificate"
		}
	case c.Server != "" && o.Server != "" && c.Server != o.Server:
		return fmt.Sprintf("its API server is %s, not %s", c.Server, o.Server)
	}
	return ""
}
