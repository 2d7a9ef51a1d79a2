package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/internal/schema"
)

func checkServers(f *Facts) (all []Finding) {
	for _, s := range []*Server{f.Cluster, f.Hub} {
		switch {
		case s == nil:
		case s.Err != nil:
			did, cure, _ := strings.Cut(s.Err.Error(), "; ")
			all = append(all, problem(did, cure))
		default:
			all = append(all, ok("the %s at %s answers (Kubernetes %s)", s.What, s.Address, s.Version))
		}
	}
	return all
}

func checkHub(f *Facts) []Finding {
	if f.Hub != nil {
		return nil
	}
	return []Finding{skipped("not checked; set --hub-kubeconfig")}
}

// answering are the servers that answer.
func (f *Facts) answering() []*Server {
	return slices.DeleteFunc([]*Server{f.Cluster, f.Hub}, func(s *Server) bool { return s == nil || s.Err != nil })
}

// checkCRDs checks whether our kinds are served, and are as new as this program.
func checkCRDs(f *Facts) (all []Finding) {
	cure := "as an administrator, upgrade the chart there, or run " + view.Rejoin(f.Set.Cluster) + " --install-crds"
	for _, s := range f.answering() {
		if s.CRDsErr != nil {
			all = append(all, skipped("the %s doesn't say which kinds it serves: %v", s.What, s.CRDsErr))
			continue
		}
		var fine []string
		for _, c := range s.CRDs {
			switch {
			case !c.Served && c.Name == globalServices:
				all = append(all, skipped("the %s doesn't serve %s; only svc.global needs it", s.What, c.Name))
			case !c.Served:
				all = append(all, problem(fmt.Sprintf("the %s doesn't serve %s", s.What, c.Name), cure))
			case len(c.Outdated) > 0:
				all = append(all, problem(fmt.Sprintf("the definition of %s in the %s is older than this clusterset: it lacks %s, and the API server drops what is written there",
					c.Name, s.What, screen.And(c.Outdated[:min(3, len(c.Outdated))])), cure))
			default:
				fine = append(fine, c.Name)
			}
		}
		if len(fine) > 0 {
			all = append(all, ok("the %s serves %s", s.What, screen.And(fine)))
		}
	}
	return all
}

// maxSkew is how far a clock may be from this machine's. Conflicts are decided by the age of exports, each by its own cluster's clock, and tokens
// are rejected if clocks differ by minutes. It is far more than the reply takes, and than the fraction of a second that its header omits.
const maxSkew = 10 * time.Second

// checkClocks compares the API servers' clocks with ours.
func checkClocks(f *Facts) (all []Finding) {
	for _, s := range f.answering() {
		switch {
		case !s.Timed:
		case s.Skew.Abs() > maxSkew:
			word := map[bool]string{true: "later", false: "earlier"}[s.Skew > 0]
			all = append(all, problem(fmt.Sprintf("the clock of the %s is %s %s than this machine's", s.What, s.Skew.Abs().Round(time.Second), word),
				"synchronize both by NTP; the ages in clusterset status are wrong by as much, and the wrong export may win a conflict"))
		default:
			all = append(all, ok("the clock of the %s agrees with this machine's", s.What))
		}
	}
	return all
}

// checkCredentials checks whether the hub accepts the agent's token, and whether it is about to expire, which means that the agent doesn't renew it: it
// does that after half of the token's lifetime, which may be minutes. What the agent itself says of its token is a problem of the set.
func checkCredentials(f *Facts) []Finding {
	c := f.Credentials
	if c == nil || slices.ContainsFunc(f.Set.Problems, func(p view.Problem) bool { return p.Reason == view.TokenRefused }) {
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
	default:
		return []Finding{ok("the agent's token for the hub, in Secret %s, is valid for %s", c.Key, screen.Age(left))}
	}
}

// globalServices is the kind that only svc.global needs.
const globalServices = "globalservices." + fabedgev1alpha1.GroupName

var kinds = map[string][]string{
	"cluster": {
		"memberclusters.clusterset.dev", "reachabilities.clusterset.dev",
		"serviceexports." + mcsv1beta1.GroupName, "serviceimports." + mcsv1beta1.GroupName, globalServices,
	},
	"hub": {"memberclusters.clusterset.dev", "exportedservices.clusterset.dev", "exportedendpoints.clusterset.dev", "memberreports.clusterset.dev"},
}

// definitions checks the kinds: which are served, and whether their definitions are as new as ours. Anyone may ask for both.
func definitions(ctx context.Context, disco *discovery.DiscoveryClient, config *rest.Config, what string) (all []CRD, err error) {
	_, lists, err := disco.ServerGroupsAndResourcesWithContext(ctx)
	if len(lists) == 0 {
		return nil, err // else groups of others may be missing
	}
	served := map[string]bool{}
	for _, list := range lists {
		group, version, _ := strings.Cut(list.GroupVersion, "/")
		for _, r := range list.APIResources {
			if version == "v1alpha1" || group == mcsv1beta1.GroupName && slices.Contains(mcs.Versions, version) {
				served[r.Name+"."+group] = true
			}
		}
	}
	lacking := map[string][]string{}
	for _, group := range []string{clustersetv1alpha1.GroupName, fabedgev1alpha1.GroupName} {
		fields, err := schema.Lacking(ctx, config, group)
		if err == nil {
			maps.Copy(lacking, fields)
		}
	}
	for _, name := range kinds[what] {
		c := CRD{Name: name, Served: served[name], Outdated: lacking[name]}
		plural, group, _ := strings.Cut(name, ".")
		if group == mcsv1beta1.GroupName && !served[plural+"/status."+group] {
			c.Outdated = append(c.Outdated, "the status subresource")
		}
		all = append(all, c)
	}
	return all, nil
}
