package clusterset

import (
	"testing"
	"time"
)

// The tests wait for what these pauses hold up. They are shortened before any source runs, so that nothing races.
func init() {
	absentPoll = 300 * time.Millisecond
	retryMax = time.Second
	rescan = 500 * time.Millisecond
}

// SetNamespaceFile makes servers that start during the test think that they run in a pod.
func SetNamespaceFile(t *testing.T, path string) {
	before := namespaceFile
	namespaceFile = path
	t.Cleanup(func() { namespaceFile = before })
}
