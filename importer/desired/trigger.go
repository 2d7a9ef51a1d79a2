package desired

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// triggerTime is the annotation that states when a slice's endpoints changed.
const triggerTime = corev1.EndpointsLastChangeTriggerTime

// TriggerTimes returns, by slice name, the annotation that states when a slice's endpoints changed, for the slices that are
// about to bring such a change here. No other written slice may have it: DNS servers and kube-proxies that measure how long a
// change takes regard every write of a slice as the end of the stated change. So there is none if only rank or hints changed,
// if the service was not imported before, or if the change was too long ago.
func TriggerTimes(cur Current, out Output, now time.Time) map[string]map[string]string {
	if cur.ServiceImport == nil {
		return nil
	}
	times := map[string]map[string]string{}
	has := pieces(out.Slices, func(s *discoveryv1.EndpointSlice) bool {
		_, recent := api.RecentTriggerTime(s.Annotations, now)
		return recent
	})
	had := pieces(cur.Slices, func(s *discoveryv1.EndpointSlice) bool { return has[WholeSlice(s.Name)] != nil })
	for whole, after := range has {
		before := had[whole]
		told := slices.ContainsFunc(before, func(s *discoveryv1.EndpointSlice) bool {
			return s.Annotations[triggerTime] == after[0].Annotations[triggerTime]
		})
		if told || maps.Equal(backends(before), backends(after)) {
			continue
		}
		for _, s := range after {
			times[s.Name] = map[string]string{triggerTime: s.Annotations[triggerTime]}
		}
	}
	return times
}

// pieces returns the slices that of selects, by the names of the slices that they are pieces of.
func pieces(all []*discoveryv1.EndpointSlice, of func(*discoveryv1.EndpointSlice) bool) map[string][]*discoveryv1.EndpointSlice {
	byName := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range all {
		if of(s) {
			whole := WholeSlice(s.Name)
			byName[whole] = append(byName[whole], s)
		}
	}
	return byName
}

// backend is an endpoint in its own cluster. Zone and hints may be ours.
type backend struct{ ready, serving, terminating bool }

// backends returns the endpoints of a slice's pieces by their addresses.
func backends(pieces []*discoveryv1.EndpointSlice) map[string]backend {
	all := map[string]backend{}
	for _, s := range pieces {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			c := e.Conditions
			for _, address := range e.Addresses {
				all[address] = backend{
					ready: c.Ready == nil || *c.Ready, serving: c.Serving == nil || *c.Serving, terminating: c.Terminating != nil && *c.Terminating,
				}
			}
		}
	}
	return all
}
