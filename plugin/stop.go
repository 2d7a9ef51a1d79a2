package clusterset

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
)

// stopping is set once the process has been told to stop, and never reset. A reload doesn't set it.
var stopping atomic.Bool

const stopHook = "clusterset-lameduck"

var registerStopHook sync.Mutex

// registerStop registers beforeStop for SIGTERM and SIGINT. It is called for each Corefile, because a reload by SIGUSR1 drops
// all hooks.
func registerStop() {
	registerStopHook.Lock()
	defer registerStopHook.Unlock()
	if !slices.Contains(caddy.ListPlugins()["event_hooks"], stopHook) {
		caddy.RegisterEventHook(stopHook, beforeStop)
	}
}

// beforeStop makes the process unready as soon as it is told to stop, and delays the shutdown for the lameduck option's
// duration. caddy calls it before any plugin shuts down. The health plugin's lameduck comes too late: other plugins have been
// shut down by then, and once shed is, the server sends no more replies over UDP.
func beforeStop(event caddy.EventName, _ any) error {
	if event != caddy.ShutdownEvent {
		return nil
	}
	stopping.Store(true)
	if d := longestLameduck(); d > 0 {
		log.Infof("Shutting down: not ready from now on, answering for another %v", d)
		time.Sleep(d) //nolint:forbidigo // lameduck: the server keeps answering meanwhile
	}
	return nil
}

// longestLameduck returns the longest lameduck of all stanzas: the process stops as a whole.
func longestLameduck() time.Duration {
	started.mu.Lock()
	defer started.mu.Unlock()
	var longest time.Duration
	for ss := range started.all {
		ss.mu.Lock()
		longest = max(longest, ss.lameduck)
		ss.mu.Unlock()
	}
	return longest
}
