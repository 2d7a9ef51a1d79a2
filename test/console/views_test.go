package console

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The console shows the examples without a cluster, as docs/console.md says.
func TestExample(t *testing.T) {
	p := open(t, start(t, "--manifests", filepath.Join(root, "examples", "preview")), "#/map")
	p.sees("3 clusters in 2 regions")
}

// The map shows each cluster's phase, drain, exports and version. It can be filtered, and opens a cluster.
func TestMap(t *testing.T) {
	p := open(t, theSet(t), "#/map")
	p.sees("12 clusters in 3 regions and 10 zones, 14 services, 1 in conflict. Usual version: v0.12.0", "cn-south-1a + cn-south-1b", "6 exports")
	tile := func(name string, words ...string) {
		t.Helper()
		for _, w := range words {
			p.until(found(".tile", name) + `.innerText.includes(` + quote(w) + `)`)
		}
	}
	tile("nanjing", "Suspect", "ago")
	tile("nanning", "Expired")
	tile("tianjin", "drained", "Ready", "2 exports")
	tile("xiamen", "v0.11.4")
	p.until(`document.querySelector(".tile .odd").innerText === "v0.11.4"`)
	p.accessible()

	p.click(".filter", "Suspect")
	p.until(`document.querySelectorAll(".tile").length === 1`)
	p.click(".filter", "Suspect")
	p.fill("#search", "beijing")
	p.until(`document.querySelectorAll(".tile").length === 2`)
	p.click(".tile", "beijing-2")
	p.sees("Clients in zones cn-north-1b", "Exports 4 services", "Agent v0.12.0")
	p.accessible()
	p.click(".close", "Close")
	p.seesNot("Clients in zones")

	p.sees("What this page reads: 1 source", "The manifests")
}

// The map says of whose agents can't reach others, also as changes would have it.
func TestMapOfReach(t *testing.T) {
	dir := t.TempDir()
	report := "apiVersion: clusterset.dev/v1alpha1\nkind: MemberReport\nmetadata: {namespace: clusterset-member-hangzhou, name: clusterset-agent}\nspec: {unreachable: [beijing-1, tianjin]}\n"
	if err := errors.Join(os.CopyFS(dir, os.DirFS("testdata/set")), os.WriteFile(filepath.Join(dir, "report.yaml"), []byte(report), 0o600)); err != nil {
		t.Fatal(err)
	}
	p := open(t, start(t, "--manifests", dir), "#/map?cluster=hangzhou")
	p.until(found(".tile", "hangzhou") + `.innerText.includes("can't reach 2")`)
	p.sees("Can't reach beijing-1, tianjin")
	p.accessible()
	p.goTo("#/map?cluster=guangzhou&if=unreachable+tianjin+from%3Dguangzhou")
	p.until(found(".tile", "guangzhou") + `.innerText.includes("can't reach 1")`)
	p.sees("Can't reach none tianjin")
	p.accessible()
}

// The list of services can be searched, filtered and sorted, and opens a service.
func TestServices(t *testing.T) {
	p := open(t, theSet(t), "#/services")
	p.sees("14 services", "shop/web", "prefer cluster zone region")
	p.accessible()
	rows := func(names ...string) {
		t.Helper()
		p.until(`[...document.querySelectorAll(".rows .name")].map((e) => e.innerText.replace(/\s/g, "")).join() === ` + quote(strings.Join(names, ",")))
	}
	p.shortcut("/")
	p.press("search")
	rows("search/index", "search/query")
	p.sees("2 of 14 services")
	p.goTo("#/services?q=10.64.100.2")
	rows("shop/web")
	p.goTo("#/services?q=nothing-like-it")
	p.sees("No service matches.")
	p.accessible()
	p.goTo("#/services")
	p.choose("select[name=cluster]", "tianjin")
	rows("infra/traces", "shop/web")
	p.goTo("#/services")
	p.click(".toggle", "conflict")
	rows("infra/metrics")
	p.click(".toggle", "conflict")
	p.click(".toggle", "no ready endpoint")
	rows("infra/queue", "media/transcode") // nanjing is Suspect
	p.goTo("#/services?type=Headless&sort=ready&desc=1")
	rows("payments/fraud", "search/index", "infra/queue")
	p.click(".rows .name a", "fraud")
	p.until(`document.querySelector("h1").innerText.replace(/\s/g, "") === "payments/fraud"`)
}

// Links draws what leads from cluster to cluster, and has it as a matrix and as files.
func TestLinks(t *testing.T) {
	p := open(t, theSet(t), "#/links")
	p.sees("pairs of clusters with services", "No path is measured.")
	p.until(`document.querySelectorAll(".node").length === 12 && document.querySelectorAll(".link.used").length > 20`)
	p.accessible()
	p.click(".node", "Only the links of xiamen")
	p.until(`[...document.querySelectorAll(".link title")].every((e) => e.textContent.includes("xiamen"))`)
	p.click(".toggle", "only xiamen")
	p.click(".segments a", "matrix")
	p.until(`document.querySelector('.reach td[title^="tianjin to beijing-2: 3 services"] b')?.innerText === "3"`)
	p.accessible()
	p.do(`URL.createObjectURL = (blob) => { blob.text().then((text) => { window.csv = text; }); return "#"; }`)
	p.do(`document.querySelector("a[download$=csv]").addEventListener("click", (e) => e.preventDefault())`)
	p.click("a", "CSV")
	p.until(`window.csv.includes("\ntianjin,beijing-2,3,,,,\n")`)
	p.narrow()
}

// Problems lists what is wrong, the most urgent first. It can be searched, and leads to what a problem is about.
func TestProblems(t *testing.T) {
	p := open(t, theSet(t), "#/problems")
	p.sees("3 problems, 2 urgent", "It has sent no heartbeat for too long", "What to do: run clusterset doctor there", "PortConflict", "Ready endpoints are only in Suspect nanjing")
	p.until(`document.querySelector("nav .count.wrong").innerText === "2"`)
	about := func(names string) {
		t.Helper()
		p.until(`[...document.querySelectorAll(".problem b a")].map((e) => e.innerText).join() === ` + quote(names))
	}
	about("nanjing,nanning,infra/queue,infra/metrics,media/transcode")
	p.accessible()
	p.fill("#search", "expired")
	about("nanning")
	p.click(".problem a", "nanning")
	p.sees("Clients in zones")
	p.goTo("#/problems")
	p.click(".toggle", "Services")
	about("infra/queue,infra/metrics,media/transcode")
	p.click(".toggle", "Services")
	p.narrow()
	about("nanjing,nanning,infra/queue,infra/metrics,media/transcode")
	p.accessible()
	p.click(".problem a", "infra/metrics")
	p.until(`document.querySelector("h1").innerText.includes("metrics")`)
}

// A service's page shows which clusters export it, its conflicts, and what each place uses and why.
func TestService(t *testing.T) {
	p := open(t, theSet(t), "#/service/shop/web")
	p.sees("16 of 25", "web.shop.svc.clusterset.local web.shop.svc.global", "dig +short web.shop.svc.clusterset.local", "clusterset explain shop/web", "12 places × 7 clusters", "Exported by", "cn-north-1a / cn-north")
	cell := func(place, cluster, words string) {
		t.Helper()
		p.until(`[...document.querySelectorAll(".mrow")].find((e) => e.querySelector(".mplace b")?.innerText === ` + quote(place) + `)?.querySelector('[title^="` + cluster + `:"]')?.title === ` + quote(cluster+": "+words))
	}
	cell("beijing-1", "beijing-1", "used by svc.global and ClusterSetIP, 3 ready")
	cell("beijing-1", "beijing-2", "not used")
	cell("tianjin", "beijing-2", "used by svc.global and ClusterSetIP, 2 ready")
	cell("tianjin", "tianjin", "not used")
	p.accessible()

	p.click(`.mrow:has(.mplace b) [title^="tianjin: not used"]`, "tianjin")
	p.sees("Why:", "drained: it is used only if nothing else is left", "clusterset.local the ClusterSetIP")
	p.click(".toggle", "Endpoints and their reasons")
	p.sees("3 endpoints of tianjin")
	p.click("a", "of all clusters")
	p.sees("25 endpoints")
	p.click(".answers .segments a", "svc.global")
	p.until(`location.hash.includes("zone=global")`)
	p.accessible()
	p.press(kb.Escape)
	p.seesNot("Endpoints and their reasons")

	p.click(".toggle", "fold alike")
	p.until(`[...document.querySelectorAll(".mplace")].some((e) => e.innerText.includes("and 1 more"))`)
	p.fill("#search", "shenzhen")
	p.until(`document.querySelectorAll(".mrow").length === 3`) // the header, and a row for each zone of shenzhen

	p.goTo("#/service/infra/metrics")
	p.sees("differs", "oldest")
	p.until(`document.querySelector(".notice.warn").innerText.includes("9090")`)
	p.goTo("#/service/search/index")
	cell("shanghai-2", "hangzhou", "used by clusterset.local and svc.global, 3 ready")
	p.mayFail() // the browser logs each 404
	p.goTo("#/service/shop/nothing")
	p.until(`document.querySelector("[role=alert]")?.innerText.includes("shop/nothing")`)
	p.accessible()
}

// The address contains all state: it can be opened in another window, and the back button undoes each step.
func TestAddress(t *testing.T) {
	c := theSet(t)
	p := open(t, c, "#/map")
	p.click(".tile", "beijing-1")
	p.sees("Exports 6 services")
	p.click(".button", "down")
	p.sees("changes 6 of 14 services")
	p.click("nav a", "Services")
	p.sees("14 services")
	p.click(".rows .name a", "api")
	p.until(`document.querySelector("h1")?.innerText.includes("api")`)
	p.click(`[title^="beijing-1: would no longer be used"]`, "beijing-1")
	p.sees("Why:")
	p.click(".segments a", "Dark")
	p.until(`document.documentElement.dataset.theme === "dark" && getComputedStyle(document.body).colorScheme === "dark"`)

	_, fragment, _ := strings.Cut(p.address(), "#")
	shared := open(t, c, "#"+fragment)
	for _, tab := range []*tab{p, shared} {
		tab.sees("down beijing-1", "6 of 14 services change", "Why:")
	}
	shared.until(`document.documentElement.dataset.theme === "dark"`)
	main := `document.querySelector("main").innerText`
	if got, want := eval[string](shared, main), eval[string](p, main); got != want {
		t.Errorf("the shared address shows\n%s\nand not\n%s", got, want)
	}

	for _, was := range []string{
		`document.documentElement.dataset.theme === ""`,
		`!document.body.innerText.includes("Why:")`,
		`document.querySelector("h1").innerText === "Services"`,
		`document.querySelector(".panel h2").innerText === "beijing-1"`,
	} {
		p.do("history.back()")
		p.until(was)
	}
	p.do("history.forward()")
	p.until(`document.querySelector("h1").innerText === "Services"`)
}
