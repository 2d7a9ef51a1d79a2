package exporter

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// failures remembers since when services have been failing.
type failures struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// note records whether a service fails, and returns for how long it has.
func (f *failures) note(key types.NamespacedName, fails bool) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !fails {
		delete(f.since, key)
		return 0
	}
	if f.since == nil {
		f.since = map[types.NamespacedName]time.Time{}
	}
	began, known := f.since[key]
	if !known {
		began = time.Now()
		f.since[key] = began
	}
	return time.Since(began)
}
