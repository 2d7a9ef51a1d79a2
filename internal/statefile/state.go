package statefile

import (
	"fmt"
	"slices"
	"time"

	"github.com/clusterset/clusterset/internal/index"
)

// State is what a DNS server knew at one moment.
type State struct {
	// Known is when the objects were last known to be those of the API server.
	Known time.Time
	// Cluster is where they came from.
	Cluster Cluster
	// Namespaces are the namespaces whose services the server read, nil for all. The state says nothing about others.
	Namespaces []string
	// Objects are in the order of Index.Objects.
	Objects []index.Object
}

// Covers reports whether the state has the services of all the namespaces given. Nil means all namespaces.
func (s *State) Covers(namespaces []string) bool {
	if s.Namespaces == nil {
		return true
	}
	return namespaces != nil && !slices.ContainsFunc(namespaces, func(ns string) bool { return !slices.Contains(s.Namespaces, ns) })
}

// Cluster identifies a Kubernetes cluster, as far as that is known.
type Cluster struct {
	// UID is the UID of the namespace kube-system, which no two clusters share. It is known once the API server has
	// answered.
	UID string `json:"uid,omitempty"`
	// CAs are the SHA-256 sums of the API server's trusted CA certificates, in hexadecimal. They are known without asking
	// it.
	CAs []string `json:"cas,omitempty"`
	// Server is the API server's URL. It is compared if there is no certificate.
	Server string `json:"server,omitempty"`
}

// Differs returns how c, the cluster here, and o are known to be different clusters, or "" if they aren't. One CA in common is enough, because
// both CAs are trusted while one is being replaced.
func (c Cluster) Differs(o Cluster) string {
	switch {
	case c.UID != "" && o.UID != "":
		if c.UID != o.UID {
			return fmt.Sprintf("the namespace kube-system has the UID %s here, and %s there", c.UID, o.UID)
		}
	case len(c.CAs) > 0 && len(o.CAs) > 0:
		if !slices.ContainsFunc(c.CAs, func(ca string) bool { return slices.Contains(o.CAs, ca) }) {
			return "the API server has another CA certificate here"
		}
	case c.Server != "" && o.Server != "" && c.Server != o.Server:
		return fmt.Sprintf("the API server is %s here, and %s there", c.Server, o.Server)
	}
	return ""
}
