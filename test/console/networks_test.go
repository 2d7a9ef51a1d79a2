package console

import (
	"path/filepath"
	"testing"
)

// In a set with several networks, the map shows which cluster is in which.
func TestNetworks(t *testing.T) {
	p := open(t, start(t, "--manifests", filepath.Join(root, "cli", "console", "testdata", "networks.yaml")), "#/map")
	p.sees("4 clusters in 3 regions", "network core", "network edge", "network without a name")
	p.until(`document.querySelector("[aria-label='Region cn-north-1, network core']")?.querySelectorAll(".tile").length === 2`)
	p.click(".tile", "shanghai")
	p.until(`[...document.querySelectorAll(".facts > div")].some((e) => e.innerText.replace(/\s+/g, " ") === "Network edge")`)
	p.sees("192.0.2.0/24")
	p.accessible()
}
