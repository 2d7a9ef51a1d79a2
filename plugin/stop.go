package clusterset

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
)

// stopping is set for good once the process has been told to end. A reload leaves it alone.
var stopping atomic.Bool

const stopHook = "clusterset-lameduck"

var registerStopHook sync.Mutex

// hearStop makes beforeStop hear SIGTERM and SIGINT. It is called for each Corefile: a reload by SIGUSR1 forgets all hooks.
func hearStop() {
	registerStopHook.Lock()
	defer registerStopHook.Unlock()
	if !slices.Contains(caddy.ListPlugins()["event_hooks"], stopHook) {
		caddy.RegisterEventHook(stopHook, beforeStop)
	}
}

// beforeStop makes the process unready at the first word of its end, and holds the end up for the lameduck option's time. caddy
// calls it before any plugin shuts down. The health plugin's lameduck comes too late: plugins have been shut down by then, shed
// among them, without which the server says nothing over UDP any more.
func beforeStop(event caddy.EventName, _ any) error {
	if event != caddy.ShutdownEvent {
		return nil
	}
	stopping.Store(true)
	if d := longestLameduck(); d > 0 {
		log.Infof("Told to end: not ready from now on, and answering for another %v", d)
		time.Sleep(d) //nolint:forbidigo // what lameduck is: the time that it goes on answering
	}
	return nil
}

// longestLameduck returns the longest of all stanzas: the process ends as a whole.
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
