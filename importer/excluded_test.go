package importer

import (
	"testing"

	"github.com/clusterset/clusterset/test/records"
)

// Services that this agent's own flags exclude are deleted at once (rule C46 of docs/spec/control-plane.md). What has no record
// stays (C42).
func TestExcludedImportsGoAtOnce(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("bank"))
	web, ledger := records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5"), records.Exported("baoding", "bank", "ledger", "10.1.0.2", "10.11.0.6")
	w.onHub(web, ledger)
	run := w.start(Options{})
	w.imported("shop", "web", 1)
	before := w.imported("bank", "ledger", 1)
	run.stop()

	w.hub.Delete(t, []byte(ledger))
	w.start(Options{ExcludeNamespaces: []string{"shop"}})
	w.gone("shop", "web")
	if now := w.imported("bank", "ledger", 1); now.derived.UID != before.derived.UID {
		t.Error("the derived Service was created again")
	}
}
