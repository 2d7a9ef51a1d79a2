package clusterset

import (
	"testing"
	"time"
)

// The tests wait for these intervals to pass. They are shortened before any source runs, to avoid a data race.
func init() {
	absentPoll = 300 * time.Millisecond
	retryMax = time.Second
	rescan = 500 * time.Millisecond
}

// SetNamespaceFile makes servers that start during the test behave as if they run in a pod.
func SetNamespaceFile(t *testing.T, path string) {
	before := namespaceFile
	namespaceFile = path
	t.Cleanup(func() { namespaceFile = before })
}

// SetReachAge makes a Reachability count for another time, for servers that start during the test.
func SetReachAge(t *testing.T, d time.Duration) {
	before := reachAge
	reachAge = d
	t.Cleanup(func() { reachAge = before })
}
