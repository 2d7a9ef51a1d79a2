package explain

import (
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/near"
	"github.com/clusterset/clusterset/internal/topology"
)

// Query is a name and the server that is asked for it.
type Query struct {
	Name   Name
	From   topology.Location
	Policy topology.Policy
}

// Facts are the objects on which the answer depends, and notes about them.
type Facts struct {
	// Self is the cluster whose Objects these are, empty if unknown.
	Self    string
	Objects []index.Object
	// Members are the MemberClusters among the Objects, unchanged.
	Members []clustersetv1alpha1.MemberCluster
	// Conflicts are those between the exports of the service, one sentence each.
	Conflicts []string
	// Hidden says which clusters export the service and aren't seen from this one, one sentence each.
	Hidden      []string
	Notes       []string
	noNamespace bool
	// slices are the EndpointSlices among the Objects, unchanged, and those that DNS servers don't read.
	slices []*discoveryv1.EndpointSlice
	// imports are the ServiceImports among the Objects, unchanged.
	imports []*mcsv1beta1.ServiceImport
}

// Result is the result of a query, as in the rcode of a reply.
type Result = preview.Rcode

// The results.
const (
	Answer   = preview.NoError
	NoData   = preview.NoData
	NXDomain = preview.NXDomain
)

// Explanation is the output of `clusterset explain -o json`.
type Explanation struct {
	Name    string        `json:"name"`
	Dialect index.Dialect `json:"dialect"`
	From    place.Place   `json:"from"`
	// Prefer are the tiers, the most preferred first. Boundary is the tier outside which no endpoint is used.
	Prefer   []string `json:"prefer"`
	Boundary string   `json:"boundary,omitempty"`
	// MinReady is the number of ready endpoints that a tier needs; 0 means 1.
	MinReady int `json:"minReady,omitempty"`
	// Stated is the part of the policy that the service states. The rest is the server's.
	Stated string `json:"stated,omitempty"`

	Result    Result   `json:"result"`
	Addresses []string `json:"addresses,omitempty"`
	// Source is the object that answers. Because says why it answers, and why with this result.
	Source  string `json:"source"`
	Because string `json:"because"`
	// Tier is the tier that is used. It is empty if endpoints were not ranked. Degraded says that only drained, Suspect or unreachable clusters
	// were left.
	Tier     string `json:"tier,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`

	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// Networks are the clusters in other networks that export the service, and how they are reached.
	Networks  []view.Across `json:"networks,omitempty"`
	Conflicts []string      `json:"conflicts,omitempty"`
	Notes     []string      `json:"notes,omitempty"`
}

// Endpoint is a candidate for the answer, with the verdict on it.
type Endpoint struct {
	place.Place
	Address  string `json:"address"`
	Hostname string `json:"hostname,omitempty"`
	// Tier is the endpoint's tier. It is empty if it wasn't determined.
	Tier string `json:"tier,omitempty"`
	// Answered says that its address is in the answer. Reason says why, or why not.
	Answered bool `json:"answered"`
	// Used says that clients get to it: its address is in the answer, or kube-proxy uses it behind the ClusterSetIP there.
	Used   bool   `json:"used"`
	Reason string `json:"reason"`
}

// NotFoundError says that there is no such service.
type NotFoundError struct {
	Name Name
	// Instead says where it may be, or what may have been meant.
	Instead string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s is NXDOMAIN: there is neither a ServiceImport nor a GlobalService %s/%s; %s",
		e.Name, e.Name.Key.Namespace(), e.Name.Key.Name(), e.Instead)
}

// instead returns what to do about a service that doesn't exist. all are those that exist.
func (f *Facts) instead(key index.ServiceKey, all []*index.Service) string {
	if len(f.Hidden) > 0 {
		return strings.Join(f.Hidden, "; ")
	}
	var like []string
	for _, s := range all {
		switch name, namespace := s.Key().Name(), s.Key().Namespace(); {
		case name == key.Name() || namespace == key.Name() && name == key.Namespace():
			like = slices.Insert(like, 0, namespace+"/"+name)
		case namespace == key.Namespace() && (strings.Contains(name, key.Name()) || strings.Contains(key.Name(), name) || near.Distance(name, key.Name()) <= max(1, len(name)/4)):
			like = append(like, namespace+"/"+name)
		}
	}
	if len(like) > 0 {
		return "did you mean " + like[0] + "?"
	}
	if f.noNamespace {
		missing := view.MissingNamespace(key.Namespace())
		return missing.Message + "; " + missing.Cure
	}
	return "clusterset status shows who is in the set; on the hub, kubectl get exportedservices -A lists what is exported"
}
