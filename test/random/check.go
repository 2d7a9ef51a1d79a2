package random

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// doubt is a question that a server answered wrongly.
type doubt struct {
	server int
	name   string
	qtype  string
}

// Zones are the zones that servers are asked about.
var Zones = []string{"clusterset.local", "global"}

// Check returns nil once every server answers every question as the oracle does, no object of an un-exported service is left, no condition names
// clusters that it must not name, and the credentials' rights and, unless clusters fall silent, the endpoints of last resort are right.
func (r *Run) Check() error {
	w, err := r.Observe()
	if err != nil {
		return err
	}
	if err := w.marksHonoured(); err != nil {
		return err
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	oracle := make([]map[string]*Zone, len(r.Servers))
	for i, s := range r.Servers {
		oracle[i] = map[string]*Zone{}
		for _, zone := range Zones {
			z := w.Zone(zone, s)
			oracle[i][zone] = z
			for name := range z.Names {
				r.seen[name] = true
			}
		}
	}
	suspects, first := r.compare(w, oracle, r.suspects, 1)
	if first == nil {
		suspects, first = r.compare(w, oracle, r.everything(), 20)
	}
	r.suspects = suspects
	if first != nil {
		return first
	}
	if !r.Silences {
		first = w.extended()
	}
	return errors.Join(first, r.leftovers(w), w.discreet(), r.readable(w))
}

// everything returns every question about what has existed, for every server.
func (r *Run) everything() []doubt {
	var all []doubt
	for _, name := range slices.Sorted(maps.Keys(r.seen)) {
		for i := range r.Servers {
			for _, qtype := range []string{"A", "AAAA", "SRV"} {
				all = append(all, doubt{i, name, qtype})
			}
		}
	}
	return all
}

// compare asks questions and returns those with a wrong answer, and an error about the first few. It stops when it has
// found enough of them.
func (r *Run) compare(w *World, oracle []map[string]*Zone, all []doubt, enough int) ([]doubt, error) {
	var mu sync.Mutex
	var wrong []doubt
	var errs []error
	var group sync.WaitGroup
	const askers = 8
	for n := range askers {
		group.Go(func() {
			for i := n; i < len(all); i += askers {
				q := all[i]
				zone := Zones[0]
				if !strings.HasSuffix(q.name, zone) {
					zone = Zones[1]
				}
				want := oracle[q.server][zone].Answer(q.name, q.qtype)
				got := r.ask(q)
				mu.Lock()
				if got != want {
					wrong = append(wrong, q)
					if len(errs) < 5 {
						errs = append(errs, fmt.Errorf("dig %s %s at %s (%s):\n  got  %s\n  want %s\n%s",
							q.name, q.qtype, r.Servers[q.server].Member.Spec.Name, r.Servers[q.server].At, got, want, w.describe(q.name)))
					}
				}
				stop := len(wrong) >= enough
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	group.Wait()
	if len(wrong) == 0 {
		return nil, nil
	}
	return wrong, fmt.Errorf("%d wrong answers, or more:\n%w", len(wrong), errors.Join(errs...))
}

// ask asks over UDP and, as any client does, again over TCP if the answer was truncated.
func (r *Run) ask(q doubt) string {
	s := r.Servers[q.server]
	reply, err := s.Reply(q.name, q.qtype)
	if err == nil && reply.Truncated {
		reply, err = fleettest.Exchange(context.Background(), s.Addr(), q.name, q.qtype, "tcp")
	}
	if err != nil {
		return err.Error()
	}
	return ReplyText(reply)
}

// ReplyText formats a reply as the oracle does.
func ReplyText(reply *dns.Msg) string {
	var additional []string
	answer := fleet.Data(reply)
	if len(sortedSet(answer)) != len(answer) {
		return "the same twice: " + strings.Join(answer, ", ")
	}
	for _, rr := range reply.Extra {
		if h := rr.Header(); h.Rrtype != dns.TypeOPT {
			additional = append(additional, h.Name+" "+dns.TypeToString[h.Rrtype]+" "+strings.TrimPrefix(rr.String(), h.String()))
		}
	}
	return answerText(answer, additional)
}

// describe lists what the clusters export under a name.
func (w *World) describe(name string) string {
	var b strings.Builder
	for _, key := range w.Keys() {
		if !strings.Contains("."+name, fmt.Sprintf(".%s.%s.svc.", key.Name, key.Namespace)) {
			continue
		}
		for _, p := range w.Parts(key) {
			fmt.Fprintf(&b, "  %s in %q, network %q with %q, since %s (drained: %v; only for %q: %v): %s %v %v %v\n", p.Name, p.In, p.Network, p.External, p.since.Format("15:04:05"), p.Drained,
				p.to, p.only, p.service.Spec.Type, p.service.Spec.ClusterIPs, p.service.Spec.IPFamilies, p.service.Spec.Ports)
			if stated, exported := p.external(); stated != nil {
				fmt.Fprintf(&b, "    external %v of %v\n", exported, stated)
			}
			for _, s := range p.slices {
				text, _ := json.Marshal([]any{s.Ports, s.Endpoints}) // never fails
				fmt.Fprintf(&b, "    %s %s\n", s.Name, text)
			}
		}
	}
	return b.String()
}

// leftovers returns an error if the importer's objects are left for a service that nobody exports to that cluster, or a cluster's
// records are left on the hub for a service that it doesn't export (C5, C18, C19, C30 of docs/spec/control-plane.md).
func (r *Run) leftovers(w *World) error {
	var left []string
	for i, m := range r.Members {
		for _, ns := range r.Script.Namespaces {
			for _, list := range []client.ObjectList{
				&mcsv1beta1.ServiceImportList{}, &fabedgev1alpha1.GlobalServiceList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{},
			} {
				if err := m.List(list, client.InNamespace(ns), client.MatchingLabels{"clusterset.dev/managed-by": "importer"}); err != nil {
					return err
				}
				for _, o := range ObjectsOf(list) {
					if o.GetLabels()[extendsLabel] != "" {
						continue // see extended
					}
					key := types.NamespacedName{Namespace: ns, Name: o.GetName()}
					if of := o.GetLabels()["multicluster.kubernetes.io/service-name"]; of != "" {
						key.Name = of
					}
					from := o.GetLabels()["multicluster.kubernetes.io/source-cluster"]
					if !slices.ContainsFunc(w.visible(w.Clusters[i], key), func(p Part) bool { return from == "" || p.Name == from }) {
						left = append(left, fmt.Sprintf("%s: %T %s", m.Spec.Name, o, client.ObjectKeyFromObject(o)))
					}
				}
			}
		}
	}
	for _, list := range []client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
		if err := r.Hub.List(list); err != nil {
			return err
		}
		for _, o := range ObjectsOf(list) {
			labels := o.GetLabels()
			if s, ok := o.(*clustersetv1alpha1.ExportedService); ok && !s.Exports() {
				continue
			}
			key := types.NamespacedName{Namespace: labels["clusterset.dev/service-namespace"], Name: labels["clusterset.dev/service-name"]}
			if !slices.ContainsFunc(w.Parts(key), func(p Part) bool { return o.GetNamespace() == "clusterset-member-"+p.Name }) {
				left = append(left, fmt.Sprintf("hub: %T %s", o, client.ObjectKeyFromObject(o)))
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d objects belong to services that nobody exports:\n%s", len(left), strings.Join(left[:min(8, len(left))], "\n"))
	}
	return nil
}

// ObjectsOf returns the objects of a list.
func ObjectsOf(list client.ObjectList) (all []client.Object) {
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, o.(client.Object))
		return nil
	})
	return all
}
