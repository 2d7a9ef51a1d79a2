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
