package effective

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Absences remember since when parts of services have had no record while their clusters were Ready. Nothing else of a missing record is remembered,
// and a restart begins anew (C41). The zero value is empty.
type Absences struct {
	mu sync.Mutex
	of map[types.NamespacedName]map[string]time.Time // by service and cluster
}

// Note records which clusters' parts of a service have no record, and whether each is Ready: time that one isn't doesn't count. It returns since when.
func (a *Absences) Note(service types.NamespacedName, clusters []string, ready func(cluster string) bool, now time.Time) map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, is := a.of[service], make(map[string]time.Time, len(clusters))
	for _, cluster := range clusters {
		since, known := was[cluster]
		if !known || !ready(cluster) {
			since = now
		}
		is[cluster] = since
	}
	switch {
	case len(is) == 0:
		delete(a.of, service)
	case a.of == nil:
		a.of = map[types.NamespacedName]map[string]time.Time{service: is}
	default:
		a.of[service] = is
	}
	return is
}

// Of returns the services of which a cluster's part has no record, or any cluster's if it is "".
func (a *Absences) Of(cluster string) (all []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for service, parts := range a.of {
		if _, is := parts[cluster]; is || cluster == "" {
			all = append(all, service)
		}
	}
	return all
}

// Count returns how many services there are of which a cluster's part has no record.
func (a *Absences) Count(cluster string) int { return len(a.Of(cluster)) }
