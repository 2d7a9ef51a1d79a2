package console

import (
	"net"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/test/largeset"
)

// maxElements bounds the page's number of elements for a set of any size. The map shows 250 clusters with about nine elements each.
const maxElements = 4500

// With 250 clusters and 5,000 services the page contains only what is near the screen, and every view works.
func TestScale(t *testing.T) {
	c := inProcess(t, largeset.Records(2, 2))
	p := open(t, c, "#/map")
	few := func(what string) {
		t.Helper()
		n := eval[int](p, `document.querySelectorAll("*").length`)
		t.Logf("%s: %d elements", what, n)
		if n > maxElements {
			t.Errorf("%s has %d elements; want at most %d", what, n, maxElements)
		}
	}
	p.until(`document.querySelectorAll(".tile").length === 250`)
	few("map")

	p.goTo("#/services")
	p.sees("5,000 services")
	few("services")
	p.do(`document.querySelector('.rows [tabindex="0"]').focus()`)
	p.press(kb.End)
	p.until(`document.activeElement.innerText.includes("ns-99/svc-4999")`)
	few("services, at the end")
	p.fill("#search", "svc-1234")
	p.sees("1 of 5,000 services")

	p.goTo("#/service/ns-0/svc-0")
	p.sees("250 places × 250 clusters")
	few("matrix")
	p.do(`document.querySelector('.matrix [tabindex="0"]').focus()`)
	p.do(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "End", ctrlKey: true, bubbles: true }))`)
	p.until(`document.activeElement.dataset.at === "249,250"`)
	few("matrix, at its far corner")

	p.goTo("#/whatif?if=down+cluster-000")
	p.until(`document.querySelector("#result")?.innerText.includes("of 5000 services")`)
	few("what if")
}

// inProcess serves a console from this process, with the objects in memory: writing and reading a hundred thousand manifests would
// take longer than the test.
func inProcess(t *testing.T, objects []runtime.Object) *consoled {
	t.Helper()
	chromium(t)
	server := console.New(console.Options{})
	server.AddSource(console.Source{Role: console.RoleFiles, State: console.Live, LastAnswer: time.Now()})
	server.SetRecords(objects)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), l) }()
	t.Cleanup(func() {
		if err := <-served; err != nil { // Serve returns because the test's context has ended
			t.Error(err)
		}
	})
	return &consoled{url: "http://" + l.Addr().String() + "/?token=" + server.Token()}
}
