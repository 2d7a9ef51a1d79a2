package console

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// In a set with communities, the map shows them and filters by them. A service's page shows which places don't see which export,
// and why.
func TestCommunities(t *testing.T) {
	p := open(t, start(t, "--manifests", filepath.Join(root, "cli", "console", "testdata", "communities.yaml")), "#/map")
	p.sees("4 clusters in 1 region", "2 services, 1 in conflict", "payments, edge-asia")
	p.choose("select[name=community]", "payments")
	p.until(`document.querySelectorAll(".tile").length === 2`)
	p.click(".tile", "tianjin")
	p.until(`[...document.querySelectorAll(".facts > div")].some((e) => e.innerText.replace(/\s+/g, " ") === "Communities payments")`)
	p.accessible()

	p.goTo("#/service/shop/web")
	p.sees("only these clusters see both: beijing", "not visible: by communities or export-to")
	const hidden = "tianjin: not visible: tianjin exports it, and shares no community with shanghai"
	p.until(`!!document.querySelector('[title="` + hidden + `"] .mark.hid')`)
	p.accessible()
	p.click(`[title="`+hidden+`"]`, "")
	p.sees("Why: tianjin exports it, and shares no community with shanghai.")
	p.press(kb.Escape)

	p.goTo("#/service/shop/ledger")
	p.sees("Exported to")
	p.click(`.mrow .mfirst`, "shanghai")
	p.sees("Not visible from there: beijing exports it, but not to shanghai (clusterset.dev/export-to).")

	// With what-if changes of communities and exports, every view shows the difference.
	p.goTo("#/whatif?kind=place&cluster=tianjin")
	p.fill("input[name=communities]", "payments, edge-asia")
	p.click("button", "Add the change")
	p.sees("place tianjin communities payments, edge-asia", "changes 1 of 2 services", "1 more")
	p.goTo("#/whatif?kind=policy&service=shop/ledger")
	p.fill("input[name=exportTo]", "-")
	p.click("button", "Add the change")
	p.sees("policy shop/ledger export-to -")
	p.accessible()
	p.goTo("#/service/shop/web?if=place+tianjin+communities%3Dpayments,edge-asia")
	p.until(`document.querySelector('[title^="tianjin: would be used"]') !== null && !document.querySelector('[title="` + hidden + `"]')`)
	p.goTo("#/map?if=place+tianjin+communities%3Dpayments,edge-asia")
	p.sees("other communities")
}

// With a panel open at a width of 1280, no column is cut off: the matrix scrolls within its box, and its edge shows that it
// continues.
func TestMatrixBesideAPanel(t *testing.T) {
	p := open(t, theSet(t), "#/service/shop/web?at=tianjin%2Fcn-north-1b%2Fcn-north")
	p.size(1280, 800)
	p.sees("From tianjin")
	whole := `(() => {
		const m = document.querySelector(".matrix"), edge = m.getBoundingClientRect().right;
		const heads = [...m.querySelectorAll(".mhead .mcell")].map((e) => e.getBoundingClientRect());
		return m.scrollWidth > m.clientWidth && heads.filter((h) => h.right <= edge).length >= 2 && heads.every((h) => h.right <= edge || h.left >= edge - 3) &&
			document.documentElement.scrollWidth <= innerWidth;
	})()`
	p.until(whole)
	more := `document.querySelector(".matrixbox.more") !== null && getComputedStyle(document.querySelector(".matrixbox"), "::after").borderRightWidth === "3px"`
	p.until(more)
	p.do(`document.querySelector(".matrix").scrollLeft = 10000`)
	p.until(`document.querySelector(".matrixbox.more") === null`)
}

// A panel that closes returns the focus to the element that opened it.
func TestFocusReturns(t *testing.T) {
	p := open(t, theSet(t), "#/map")
	p.click(".tile", "beijing-1")
	p.sees("Clients in zones")
	p.click(".close", "")
	p.seesNot("Clients in zones")
	p.until(`document.activeElement?.matches(".tile") && document.activeElement.innerText.includes("beijing-1")`)

	p.goTo("#/service/shop/web")
	p.click(`.mrow:has(.mplace b) [title^="tianjin: not used"]`, "tianjin")
	p.sees("Why:")
	p.do(`document.querySelector(".answers .toggle").focus()`)
	p.press(kb.Escape)
	p.seesNot("Why:")
	p.until(`document.activeElement?.matches(".mcell") && document.activeElement.title.startsWith("tianjin: ")`)
}
