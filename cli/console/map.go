package console

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

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
func (s *Server) clusters(ctx context.Context, q query) (*Map, error) {
	is, err := s.asked(ctx, q)
	if err != nil {
		return nil, err
	}
	m := &Map{Time: time.Now(), Flags: s.options.Flags, Clusters: []Cluster{}, NotEnforced: view.NotEnforced(is.set.members)}
	m.ExpiryPaused = slices.ContainsFunc(is.set.members, func(mc *clustersetv1alpha1.MemberCluster) bool {
		return meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused)
	})
	for _, from := range is.sources {
		m.Sources = append(m.Sources, *from)
	}
	exports := map[*preview.State]map[string]int{is.set.state: is.set.state.Exports(), is.after: is.after.Exports()}
	of := func(mc *clustersetv1alpha1.MemberCluster, in *preview.State) Cluster {
		c := Cluster{
			Cluster: view.OnHub(mc, is.heard[mc.Name].Renewed, exports[in][mc.Name], m.Time),
			Weight:  int(ptr.Deref(mc.Spec.Weight, 0)), CIDRs: mc.Spec.CIDRs, ExternalCIDRs: mc.Spec.ExternalCIDRs, Places: []string{},
		}
		c.CantReach = in.CantReach(mc.Name)
		for _, p := range in.PlacesOf(mc.Name) {
			c.Places = append(c.Places, p.Zone)
		}
		return c
	}
	for _, mc := range is.set.members {
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
	m.Services.Total = len(is.set.keys)
	for _, i := range is.set.items {
		if len(i.Conflicts) > 0 {
			m.Services.Conflicts++
		}
	}
	return m, nil
}

// State is the state of a source.
type State string

// The States. Loading: it hasn't answered yet. Live: it answers, and its changes are followed. Away: it doesn't answer; the console shows
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
	// Since is the time since when it is in that state. LastAnswer is the last time when all of it could be read.
	Since      time.Time `json:"since"`
	LastAnswer time.Time `json:"lastAnswer,omitzero"`
	// Error says what is wrong, and what to do about it.
	Error string `json:"error,omitempty"`
	// Imported and Exported are the numbers of a member's services, and Extended those, as namespace/name, whose own name leads to other clusters
	// while they have no ready endpoint.
	Imported int      `json:"imported,omitempty"`
	Exported int      `json:"exported,omitempty"`
	Extended []string `json:"extended,omitempty"`
	// Local is what was read of a member, and Asked what only `clusterset doctor` asks, as of its Now. Nil: that hasn't been read.
	Local *view.LocalFacts `json:"-"`
	Asked *doctor.Facts    `json:"-"`
	// Counted reads what the DNS servers of a member have counted.
	Counted func(context.Context) (*Counted, error) `json:"-"`
}

// Read sets what was read of a member.
func (s *Source) Read(local *view.LocalFacts) {
	s.Cluster, s.Local, s.Imported, s.Exported, s.Extended = local.Cluster, local, len(local.Imports), 0, nil
	for i := range local.Exports {
		if meta.IsStatusConditionTrue(local.Exports[i].Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)) {
			s.Exported++
		}
	}
	for _, a := range local.Asking {
		if a.Is {
			s.Extended = append(s.Extended, a.Service.Namespace+"/"+a.Service.Name)
		}
	}
}

// lost reports whether it can't be read.
func (s *Source) lost() bool { return s.State == Away || s.State == Refused }

// asOf is the time as of which it is known: time has gone on since it was lost, and it may have changed.
func (s *Source) asOf(now time.Time) time.Time {
	if s.lost() && !s.LastAnswer.IsZero() {
		return s.LastAnswer
	}
	return now
}

// name is what it is called.
func (s *Source) name() string { return cmp.Or(s.Cluster, s.Context, s.Role) }

// hub is the source of the records.
func (s *shown) hub() *Source {
	for _, from := range s.sources {
		if from.Role != RoleMember {
			return from
		}
	}
	return &Source{}
}

// member returns a member that is as wanted, nil if there is none.
func (s *shown) member(wanted func(*Source) bool) *Source {
	for _, from := range s.sources {
		if from.Role == RoleMember && wanted(from) {
			return from
		}
	}
	return nil
}

// Counted is the answer of /api/traffic: what the DNS servers of a cluster have counted since each of them started.
type Counted struct {
	At time.Time `json:"at"`
	// Answers are the positive answers by server and tier, as the metric coredns_clusterset_answers_total has them. A tier is cluster, zone,
	// region, any, vip (a ClusterSetIP), or degraded (only Suspect, drained or unreachable clusters were left).
	Answers map[string]map[string]float64 `json:"answers"`
	// Unread says which servers couldn't be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// trafficEvery is the least time between two readings of a cluster's metrics, however many pages ask.
const trafficEvery = 5 * time.Second

// traffic answers /api/traffic. Only one request at a time may call it.
func (s *Server) traffic(ctx context.Context, q query) (*Counted, error) {
	name, is := q.Get("context"), s.current()
	from := is.member(func(from *Source) bool { return from.Context == name })
	if from == nil {
		return nil, badRequest("context is %q; want one of those that the console was started with", name)
	}
	if last := s.lastTraffic[name]; last != nil && time.Since(last.At) < trafficEvery {
		return last, nil
	}
	counted, err := from.Counted(ctx)
	if err == nil {
		s.lastTraffic[name] = counted
	}
	return counted, err
}
