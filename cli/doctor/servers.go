package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/schema"
)

func checkServers(f *Facts) []Finding {
	var all []Finding
	for _, s := range f.servers() {
		if s.Err != nil {
			did, cure, _ := strings.Cut(s.Err.Error(), "; ")
			all = append(all, problem(did, cure))
			continue
		}
		all = append(all, ok("the %s at %s answers (Kubernetes %s)", s.What, s.Address, s.Version))
	}
	return all
}

func checkHub(f *Facts) []Finding {
	if f.Hub != nil {
		return nil
	}
	return []Finding{skipped("not checked; set --hub-kubeconfig")}
}

func (f *Facts) servers() []*Server {
	var all []*Server
	for _, s := range []*Server{f.Cluster, f.Hub} {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// checkCRDs checks whether our kinds are served, and are as new as this program.
func checkCRDs(f *Facts) []Finding {
	var all []Finding
	for _, s := range f.servers() {
		if s.Err != nil {
			continue
		}
		var fine []string
		for _, c := range s.CRDs {
			if finding, bad := checkCRD(s, c, view.Rejoin(f.Set.Cluster)); bad {
				all = append(all, finding)
				continue
			}
			fine = append(fine, c.Name)
		}
		if len(fine) > 0 {
			all = append(all, ok("the %s serves %s", s.What, screen.And(fine)))
		}
	}
	return all
}

func checkCRD(s *Server, c CRD, rejoin string) (finding Finding, bad bool) {
	cure := "as an administrator, upgrade the chart there, or run " + rejoin + " --install-crds"
	switch {
	case c.Err != nil:
		return skipped("the %s doesn't say whether it serves %s: %v", s.What, c.Name, c.Err), true
	case len(c.Served) == 0 && c.Optional:
		return skipped("the %s doesn't serve %s; only svc.global needs it", s.What, c.Name), true
	case len(c.Served) == 0:
		return problem(fmt.Sprintf("the %s doesn't serve %s", s.What, c.Name), cure), true
	case !slices.ContainsFunc(c.Want, func(v string) bool { return slices.Contains(c.Served, v) }):
		return problem(fmt.Sprintf("the %s serves %s in %s; we read %s", s.What, c.Name, screen.And(c.Served), strings.Join(c.Want, " or ")), cure), true
	case len(c.Outdated) > 0:
		return problem(fmt.Sprintf("the definition of %s in the %s is older than this clusterset: it lacks %s, and the API server drops what is written there",
			c.Name, s.What, screen.And(c.Outdated[:min(3, len(c.Outdated))])), cure), true
	}
	return Finding{}, false
}

func checkRights(f *Facts) []Finding {
	var all []Finding
	for _, s := range f.servers() {
		switch {
		case s.Err != nil || len(s.Rights) == 0 && s.RightsErr == nil:
			continue
		case s.RightsErr != nil:
			all = append(all, skipped("the %s doesn't say what this account may do: %v", s.What, s.RightsErr))
			continue
		}
		missing := map[string][]string{} // by the part that needs it
		var needs []string
		for _, r := range s.Rights {
			if !slices.Contains(needs, r.For) {
				needs = append(needs, r.For)
			}
			if !r.Allowed {
				missing[r.For] = append(missing[r.For], r.String())
			}
		}
		for _, need := range needs {
			if len(missing[need]) == 0 {
				all = append(all, ok("on the %s the account may do all that %s needs", s.What, need))
				continue
			}
			all = append(all, problem(fmt.Sprintf("on the %s the account may not %s, which %s needs", s.What, screen.And(missing[need]), need),
				"grant it with a Role and a binding (those of the chart and clusterset join are complete), or use another account"))
		}
	}
	return all
}

func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	if r.Namespace != "" {
		s += " in " + r.Namespace
	}
	return s
}

// maxSkew is how far clocks may be apart. Conflicts are decided by the age of exports, each by its own cluster's clock, and tokens
// are rejected if clocks differ by minutes.
const maxSkew = 10 * time.Second

// checkClocks compares the API servers' clocks with each other and with ours.
func checkClocks(f *Facts) []Finding {
	var all []Finding
	timed := true
	for _, s := range f.servers() {
		switch {
		case s.Err != nil || !s.Timed:
			timed = false
		case apart(s.Skew, s.Uncertain):
			all = append(all, problem(fmt.Sprintf("the clock of the %s is %s than this machine's", s.What, ahead(s.Skew)),
				"synchronize both by NTP; the ages in clusterset status are wrong by as much, and the wrong export may win a conflict"))
		default:
			all = append(all, ok("the clock of the %s agrees with this machine's", s.What))
		}
	}
	if timed && f.Cluster != nil && f.Hub != nil {
		if d := f.Cluster.Skew - f.Hub.Skew; apart(d, f.Cluster.Uncertain+f.Hub.Uncertain) {
			all = append(all, problem(fmt.Sprintf("the cluster's clock is %s than the hub's", ahead(d)),
				"synchronize both by NTP: the older of two exports wins, by the clock of its own cluster"))
		}
	}
	return all
}

func apart(d, uncertain time.Duration) bool { return d.Abs()-uncertain > maxSkew }

func ahead(d time.Duration) string {
	word := "later"
	if d < 0 {
		word = "earlier"
	}
	return fmt.Sprintf("%s %s", d.Abs().Round(time.Second), word)
}

// checkCredentials checks whether the hub accepts the agent's token, and whether it is about to expire, which means that the agent doesn't renew it: it
// does that after half of the token's lifetime, which may be minutes. What the agent itself says of its token is a problem of the set.
func checkCredentials(f *Facts) []Finding {
	c := f.Credentials
	if c == nil || f.Set.Hub.RefusesToken {
		return nil
	}
	cure := "find out why the agent (clusterset member) doesn't renew it; or " + view.Rejoin(f.Set.Cluster) + " gives it a new one"
	switch left := c.Expires.Sub(f.Now); {
	case c.Err != nil:
		return []Finding{skipped("can't tell whether the agent's token for the hub is valid: %v", c.Err)}
	case c.Refused && (c.Expires.IsZero() || left > 0):
		return []Finding{problem(fmt.Sprintf("the hub at %s doesn't accept the agent's token in Secret %s: it was revoked, or is another hub's", c.Server, c.Key),
			view.Rejoin(f.Set.Cluster)+" makes a new one, which the agent uses without a restart")}
	case c.Expires.IsZero():
		return nil
	case left <= 0:
		return []Finding{problem(fmt.Sprintf("the agent's token for the hub, in Secret %s, expired on %s", c.Key, c.Expires.UTC().Format(time.RFC3339)), cure)}
	case left < min(24*time.Hour, c.Lifetime/3):
		return []Finding{problem(fmt.Sprintf("the agent's token for the hub, in Secret %s, expires in %s and hasn't been renewed", c.Key, left.Round(time.Minute)), cure)}
	case left < 48*time.Hour:
		return []Finding{ok("the agent's token for the hub, in Secret %s, is valid for %s", c.Key, left.Round(time.Minute))}
	default:
		return []Finding{ok("the agent's token for the hub, in Secret %s, is valid for %d days", c.Key, int(left.Hours()/24))}
	}
}

const mcsGroup = "multicluster.x-k8s.io"

var kinds = map[string][]CRD{
	"cluster": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "reachabilities.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "serviceexports." + mcsGroup, Want: mcs.Versions},
		{Name: "serviceimports." + mcsGroup, Want: mcs.Versions},
		{Name: "globalservices.dns.fabedge.io", Want: []string{"v1alpha1"}, Optional: true},
	},
	"hub": {
		{Name: "memberclusters.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedservices.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "exportedendpoints.clusterset.dev", Want: []string{"v1alpha1"}},
		{Name: "memberreports.clusterset.dev", Want: []string{"v1alpha1"}},
	},
}

// definitions checks the kinds: which are served, and whether their definitions are as new as ours. Anyone may ask for both.
func definitions(ctx context.Context, disco *discovery.DiscoveryClient, config *rest.Config, what string) []CRD {
	all := slices.Clone(kinds[what])
	groups, err := disco.ServerGroupsWithContext(ctx)
	for i := range all {
		k := &all[i]
		plural, group, _ := strings.Cut(k.Name, ".")
		if k.Err = err; err != nil {
			continue
		}
		for _, g := range groups.Groups {
			for _, v := range g.Versions {
				if g.Name == group && serves(ctx, disco, v.GroupVersion, plural) {
					k.Served = append(k.Served, v.Version)
				}
			}
		}
		if len(k.Served) > 0 {
			if lacking, err := schema.Lacking(ctx, config, group); err == nil {
				k.Outdated = lacking[k.Name]
			}
			if group == mcsGroup && !serves(ctx, disco, group+"/"+k.Served[0], plural+"/status") {
				k.Outdated = append(k.Outdated, "the status subresource")
			}
		}
	}
	return all
}

func serves(ctx context.Context, disco *discovery.DiscoveryClient, groupVersion, plural string) bool {
	list, err := disco.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if err != nil {
		return false // a version that has just gone
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
}
