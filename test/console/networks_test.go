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

	p.goTo("#/service/shop/api")
	p.click(".mrow .mfirst", "beijing")
	p.click(".toggle", "Endpoints and their reasons")
	p.sees("shanghai is in network edge, and isn't used: it has no external address", "not used, and in another network")
	p.until(`document.querySelector(".mcell[title='shanghai: not used, and in another network'] svg") !== null`)
	p.accessible()
	p.goTo("#/service/shop/web")
	p.until(`[...document.querySelectorAll(".mcell")].some((e) => /^shanghai: used by .*, 3 ready, at addresses for other networks$/.test(e.title) && e.querySelector("svg"))`)
	p.accessible()

	p.goTo("#/whatif?kind=place&cluster=shanghai")
	p.fill("input[name=network]", "core")
	p.click("button", "Add the change")
	p.sees("place shanghai network core", "2 become reachable", `clusterset preview --manifests`, `"network": "core"`)
	p.accessible()
	p.goTo("#/map?if=place+shanghai+network%3Dcore+externalCIDRs%3D198.51.100.0%2F24")
	p.sees("other network")
	p.until(`document.querySelector("[aria-label='Region cn-east-1, network core']")?.querySelectorAll(".tile").length === 1`)
}
