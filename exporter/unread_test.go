package exporter

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// A record isn't written again before the cache has had a moment to learn of the last write.
func TestWritesWaitForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(verb verb, version string) []step {
			return []step{{verb, kindService, &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Name: "web.shop", ResourceVersion: version}}}}
		}
		var u unread
		if wait := u.wait(at(verbCreate, "")); wait != 0 {
			t.Errorf("the first write waits for %s", wait)
		}
		u.note(at(verbCreate, "70")[0])
		elapse(300 * time.Millisecond)
		for _, c := range []struct {
			verb    verb
			version string
			wait    time.Duration
		}{
			{verbCreate, "", unreadFor - 300*time.Millisecond},
			{verbUpdate, "9", unreadFor - 300*time.Millisecond},
			{verbDelete, "69", unreadFor - 300*time.Millisecond},
			{verbUpdate, "70", 0}, // the cache has it
			{verbUpdate, "9", 0},  // so this is another history
		} {
			if wait := u.wait(at(c.verb, c.version)); wait != c.wait {
				t.Errorf("%s of version %q waits for %s, want %s", c.verb, c.version, wait, c.wait)
			}
		}
		u.note(at(verbCreate, "70")[0])
		elapse(unreadFor)
		if wait := u.wait(at(verbUpdate, "9")); wait != 0 {
			t.Errorf("a restored hub isn't written to for another %s", wait)
		}
		u.note(at(verbCreate, "70")[0])
		u.note(at(verbDelete, "70")[0])
		if wait := u.wait(at(verbCreate, "")); wait != 0 {
			t.Errorf("after its deletion it waits for %s", wait)
		}
	})
}
