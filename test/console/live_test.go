package console

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/faultproxy"
)

// The page shows changes on the API servers as they happen.
func TestLive(t *testing.T) {
	f := theFleet(t)
	p := open(t, f.console("beijing", "shanghai"), "#/map")
	p.until(found(".tile", "beijing") + `?.innerText.includes("Ready")`)
	p.until(found(".tile", "shanghai") + `?.innerText.includes("Ready")`) // or that would be announced together with the drain
	p.until(found(".tile", "shanghai") + `?.innerText.includes("heartbeat")`)
	p.sees("The cluster beijing (context beijing)")
	p.accessible()
	f.Hub.Apply("apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: beijing}\nspec: {drain: true}\n")
	p.until(found(".tile", "beijing") + `?.innerText.includes("drained")`)
	p.until(`document.querySelector("[aria-live=polite]").textContent === "beijing is Ready, drained"`)
	f.Hub.Apply("apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: beijing}\nspec: {drain: false}\n")
	p.until(found(".tile", "beijing") + `?.innerText.includes("drained") === false`)

	p.goTo("#/services")
	beijing, shanghai := f.Member("beijing"), f.Member("shanghai")
	beijing.Apply(service(t, 2, true))
	p.until(found(".rows .row", "live/web") + `?.innerText.includes("2 of 2")`)
	p.goTo("#/service/live/web")
	cell := `document.querySelector('.mrow:nth-child(2) [title^="beijing:"]')?.title`
	p.until(cell + `.includes("2 ready")`)
	beijing.Apply(service(t, 3, true))
	p.until(cell + `.includes("3 ready")`)

	// A what-if export is read from the cluster's own context.
	shanghai.Apply(service(t, 1, false))
	p.goTo("#/whatif?kind=export&service=live%2Fweb&cluster=shanghai")
	p.click("button", "Add the change")
	p.sees("export live/web from shanghai", "changes 1 of 1 service")
	p.click(".rows .name a", "web")
	p.until(`document.querySelector('.mhead')?.innerText.includes("new")`)
	beijing.Remove(exportOfWeb)
	p.goTo("#/services")
	p.sees("No service matches.")
}

// The page names a source that can't be reached or read, and keeps what it knew from it.
func TestAway(t *testing.T) {
	f := theFleet(t)
	f.links["shanghai"].Set(faultproxy.Condition{Refused: true})
	p := open(t, f.console("beijing", "shanghai"), "#/map")
	p.sees("(context shanghai) doesn't answer. Nothing is known of it.", "The cluster beijing (context beijing) Live")
	p.until(found(".tile", "shanghai") + `?.innerText.includes("Ready")`) // known from the hub
	f.links["shanghai"].Set(faultproxy.Condition{})
	p.seesNot("doesn't answer")
	f.links["hub"].Set(faultproxy.Condition{Refused: true})
	f.links["hub"].Reset()
	p.sees("The hub (context hub) doesn't answer. What is shown of it is", "Partly live")
	p.until(found(".tile", "beijing"))
	p.accessible()
	f.links["hub"].Set(faultproxy.Condition{})
	p.seesNot("doesn't answer")
	p.until(`document.querySelector(".liveness").innerText === "Live"`)
}

// Problems has what the doctor finds, with lines to paste and the age, and what it couldn't check.
func TestFindings(t *testing.T) {
	f := theFleet(t)
	const corefile = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: coredns}\ndata: {Corefile: \". {\\n forward . /etc/resolv.conf\\n}\"}\n"
	beijing := f.Member("beijing")
	beijing.Apply(corefile)
	t.Cleanup(func() { beijing.Remove(corefile) })
	p := open(t, f.console("beijing"), "#/problems")
	p.sees("The Corefile in kube-system/coredns has no stanza for clusterset.local and svc.global", "Doctor, checked", "What to do: let it forward them", "clusterset dns enable",
		"--context beijing --hub-kubeconfig", "Not checked", "No pod of clusterset member is in this cluster")
	p.accessible()
	p.click(".toggle", "Checks")
	p.fill("#search", "corefile stanza")
	p.until(`document.querySelectorAll(".problem").length === 1 && document.querySelector(".problem.bad b a").innerText === "beijing"`)
	p.narrow()
	p.accessible()
	p.click(".problem b a", "beijing")
	p.sees("Clients in zones")
}

func TestForbidden(t *testing.T) {
	f := theFleet(t)
	hub, err := f.Hub.Plane.KubeconfigFor("nobody-in-particular")
	if err != nil {
		t.Fatal(err)
	}
	member, err := f.Member("beijing").Plane.KubeconfigFor("nobody-in-particular")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, start(t, "--hub-kubeconfig", hub, "--kubeconfig", member, "--context", "default"), "#/map")
	p.sees("The hub refuses access. Nothing is known of it.", "A cluster (context default) refuses access.", "forbidden", "clusterset doctor lists what is needed", "The set has no clusters yet")
	p.accessible()
}

// When the console's server is gone, the page says so and keeps what it shows. It continues when the same session is back. If
// another session is there, it says so.
func TestServerAway(t *testing.T) {
	c := theSet(t)
	p := open(t, c, "#/map")
	p.sees("12 clusters")
	p.mayFail()
	c.Kill()
	p.sees("The console's server doesn't answer. What you see is", "12 clusters", "Stopped")
	p.accessible()
	u, err := url.Parse(strings.SplitN(c.url, "?", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	again := start(t, "--manifests", filepath.Join(root, "examples", "preview"), "--port", u.Port())
	p.sees("The console has been started again, and doesn't know this window any more.", "12 clusters")
	p.accessible()
	p.visit(again.url + "#/map")
	p.sees("3 clusters")
	p.seesNot("doesn't know this window")
}
