package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// phase is the phase of the victim, as the other clusters see it.
type phase = clustersetv1alpha1.MemberClusterPhase

const (
	ready     = clustersetv1alpha1.MemberReady
	suspected = clustersetv1alpha1.MemberSuspect
	expired   = clustersetv1alpha1.MemberExpired
)

// churn changes services in the namespace lab, about which nobody asks before the recovery, in clusters other than the
// victim.
func (c *run) churn(steps int) {
	c.Helper()
	c.Run.Churn(steps, c.victim.Spec.Name)
}

// foresee computes the expected answers with the victim in each phase.
func (c *run) foresee() {
	c.Helper()
	w := c.look()
	questions := answers{}
	maps.Copy(questions, c.asked) // a name that no longer exists is still asked for
	for _, s := range c.Servers {
		for _, zone := range random.Zones {
			for name := range w.Zone(zone, s).Names {
				if !strings.Contains(name, ".lab.") && !strings.HasPrefix(name, "lab.") {
					for _, qtype := range []string{"A", "AAAA", "SRV"} {
						questions[question{name, qtype}] = ""
					}
				}
			}
		}
	}
	if c.asked == nil {
		c.asked = questions
	}
	c.phases = map[phase][]answers{}
	for _, phase := range []phase{ready, suspected, expired} {
		for _, cluster := range w.Clusters {
			if cluster.Name == c.victim.Spec.Name {
				cluster.Drained, cluster.Expired = phase == suspected, phase == expired
			}
		}
		c.phases[phase] = c.answersIn(w, questions)
	}
}

// look observes the world, and tries again on errors.
func (c *run) look() (w *random.World) {
	c.Helper()
	kube.Eventually(c, func() (err error) {
		w, err = c.Observe()
		return err
	})
	return w
}

// answersIn returns the answers that each server must give to the questions in a world.
func (c *run) answersIn(w *random.World, questions answers) (stage []answers) {
	for _, s := range c.Servers {
		all := answers{}
		for _, zone := range random.Zones {
			z := w.Zone(zone, s)
			for q := range questions {
				if strings.HasSuffix(q.name, "."+zone) || q.name == zone {
					all[q] = z.Answer(q.name, q.qtype)
				}
			}
		}
		stage = append(stage, all)
	}
	return stage
}

// recorded returns nil once every export is on the hub, with all its endpoints and no others. Answers alone don't show that, because importers
// keep what a hub has lost.
func (c *run) recorded() error {
	w, err := c.Observe()
	if err != nil {
		return err
	}
	var all clustersetv1alpha1.ExportedEndpointsList
	if err := c.Hub.Client.List(context.Background(), &all); err != nil {
		return err
	}
	has := map[string][]string{} // addresses, by namespace on the hub, and name of the service's record
	for _, e := range all.Items {
		if e.Spec.External {
			continue
		}
		of := e.Namespace + "/" + api.ExportedServiceName(e.Spec.ServiceNamespace, e.Spec.ServiceName)
		for _, endpoint := range e.Spec.Endpoints {
			has[of] = append(has[of], endpoint.Addresses...)
		}
	}
	var errs []error
	for _, key := range w.Keys() {
		name := api.ExportedServiceName(key.Namespace, key.Name)
		for _, p := range w.Parts(key) {
			record := &clustersetv1alpha1.ExportedService{}
			if err := c.Hub.Get(api.MemberNamespace(p.Name), name, record); err != nil || !record.Exports() {
				errs = append(errs, fmt.Errorf("the hub has %+v of %s of %s: %w", record.Spec, key, p.Name, err))
			}
			got, want := has[api.MemberNamespace(p.Name)+"/"+name], p.Addresses()
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				errs = append(errs, fmt.Errorf("the hub has the endpoints %v of %s of %s, want %v", got, key, p.Name, want))
			}
		}
	}
	return errors.Join(errs...)
}

// round returns about how long the prober takes to ask every question once.
func (c *run) round() time.Duration {
	return time.Duration(len(c.phases[ready][0])) * probeEvery
}
