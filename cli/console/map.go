package console

import (
	"cmp"
	"context"
	"net/url"
	"reflect"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Map is the answer of /api/map: the clusters, and the sources that the console reads.
type Map struct {
	Time     time.Time `json:"time"` // now
	Sources  []Source  `json:"sources"`
	Clusters []Cluster `json:"clusters"`
	// Services are the numbers of exported services, and of those whose exports conflict.
	Services struct {
		Total     int `json:"total"`
		Conflicts int `json:"conflicts"`
	} `json:"services"`
	// ExpiryPaused says that the hub lets no cluster expire, because most are silent.
	ExpiryPaused bool `json:"expiryPaused,omitempty"`
	// NotEnforced is why all clusters can read all exports although MemberClusters name communities, as in a view.Report.
	NotEnforced string `json:"notEnforced,omitempty"`
	// Flags are those of the console, with which other commands read the same.
	Flags map[string]string `json:"flags,omitempty"`
}

// Cluster is a cluster of the set.
type Cluster struct {
	view.Cluster
	Weight int      `json:"weight,omitempty"`
	CIDRs  []string `json:"cidrs,omitempty"`
	// ExternalCIDRs are where its external addresses are, which clusters of other networks use.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
	// Places are the zones with clients, "" if none is known.
	Places []string `json:"places"`
	// After is the cluster after the changes, if it differs. Down and Leaves say that it fails or leaves in the changes.
	After  *Cluster `json:"after,omitempty"`
	Down   bool     `json:"down,omitempty"`
	Leaves bool     `json:"leaves,omitempty"`
}

// clusters answers /api/map.
func (s *Server) clusters(ctx context.Context, q url.Values) (*Map, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	m := &Map{Time: time.Now(), Flags: s.options.Flags, Clusters: []Cluster{}}
	report := view.Build(view.Facts{Now: m.Time, Hub: is.hub})
	m.ExpiryPaused, m.NotEnforced = report.Hub.ExpiryPaused, report.Hub.NotEnforced
	m.Services.Total, m.Services.Conflicts = len(is.set.items), len(report.Services.Conflicts)
	for _, from := range is.sources {
		m.Sources = append(m.Sources, *from)
	}
	exports := map[*preview.State]map[string]int{is.set.state: is.set.state.Exports(), is.after: is.after.Exports()}
	of := func(mc *clustersetv1alpha1.MemberCluster, in *preview.State) Cluster {
		c := Cluster{
			Cluster: view.OnHub(mc, is.hub.Heard[mc.Name].Renewed, exports[in][mc.Name], m.Time),
			Weight:  int(ptr.Deref(mc.Spec.Weight, 0)), CIDRs: mc.Spec.CIDRs, ExternalCIDRs: mc.Spec.ExternalCIDRs, Places: []string{},
		}
		c.CantReach = in.CantReach(mc.Name)
		for _, p := range in.PlacesOf(mc.Name) {
			c.Places = append(c.Places, p.Zone)
		}
		return c
	}
	for i := range is.hub.Members {
		mc := &is.hub.Members[i]
		cluster := of(mc, is.set.state)
		if to := is.after.Member(mc.Name); to == nil {
			cluster.Leaves = !mc.Left()
		} else if is.changed() {
			if then := of(to, is.after); !reflect.DeepEqual(then, cluster) {
				cluster.After = &then
			}
			cluster.Down = is.after.Down(mc.Name)
		}
		m.Clusters = append(m.Clusters, cluster)
	}
	slices.SortFunc(m.Clusters, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return m, nil
}

// State is the state of a source.
type State string

// The States. Loading: it hasn't answered yet. Live: it answers. Away: it doesn't answer; the console shows
// its last answer. Refused: it answers, but rights are missing.
const (
	Loading State = "Loading"
	Live    State = "Live"
	Away    State = "Away"
	Refused State = "Refused"
)

// The roles of a Source.
const (
	RoleHub    = "hub"
	RoleMember = "member"
	RoleFiles  = "files" // instead of a hub
)

// Source is an API server that the console reads, or the files in its place.
type Source struct {
	Role    string `json:"role"`
	Context string `json:"context,omitempty"`
	Server  string `json:"server,omitempty"`
	// Cluster is a member's name in the set, if it is known.
	Cluster string `json:"cluster,omitempty"`
	State   State  `json:"state"`
	// LastAnswer is the last time when all of it could be read.
	LastAnswer time.Time `json:"lastAnswer,omitzero"`
	// Error says what is wrong, and what to do about it.
	Error string `json:"error,omitempty"`
	// Imported and Exported are the numbers of a member's services.
	Imported *int `json:"imported,omitempty"`
	Exported *int `json:"exported,omitempty"`
	// Local is what was read of a member, and Asked what only `clusterset doctor` asks, as of its Now. Nil: that hasn't been read.
	Local *view.LocalFacts `json:"-"`
	Asked *doctor.Facts    `json:"-"`
	// Traffic is that of a member's DNS servers, read with Asked.
	Traffic *view.Traffic `json:"-"`
}

// lost reports whether it can't be read.
func (s *Source) lost() bool { return s.State == Away || s.State == Refused }

// asOf is the time as of which it is known.
func (s *Source) asOf(now time.Time) time.Time {
	if s.LastAnswer.IsZero() {
		return now
	}
	return s.LastAnswer
}

// name is what it is called.
func (s *Source) name() string { return cmp.Or(s.Cluster, s.Context, s.Role) }
