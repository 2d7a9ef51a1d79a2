package importer

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

func TestAHubThatIsDownDeletesNothing(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(records.Exported("beijing", "shop", "web", "10.1.0.1", "10.11.0.5"))
	run := w.start(Options{})
	before := w.imported("shop", "web", 1)
	run.stop()

	w.hub.StopAPIServer()
	run = w.start(Options{})
	kube.Eventually(t, soon, func() error {
		if len(run.local.watched()) == 0 {
			return fmt.Errorf("the local API server isn't watched yet")
		}
		return nil
	})
	if got := run.local.written(); len(got) > 0 {
		t.Errorf("wrote %v", got)
	}
	if err := w.hub.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.onHub(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	after := w.imported("shop", "web", 2)
	if after.derived.UID != before.derived.UID {
		t.Error("the derived Service was made anew")
	}
}
