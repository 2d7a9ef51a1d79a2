package console

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/console"
)

const (
	manyClusters, manyServices = 250, 5000
	// maxElements bounds the page's number of elements for a set of any size. The map shows 250 clusters with about nine elements
	// each.
	maxElements = 4500
)

// With 250 clusters and 5,000 services the page contains only what is near the screen, and every view works. The test logs how long
// each view takes.
func TestScale(t *testing.T) {
	c := inProcess(t, large())
	p := blank(t, c)
	// Record when the first tile, row or cell is there. first compares that with the arrival of the data.
	if _, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		new MutationObserver((_, o) => {
			if (!document.querySelector(".tile, .rows .name a, .mcell .mark")) return;
			o.disconnect();
			requestAnimationFrame(() => { window.firstView = performance.now(); });
		}).observe(document, { subtree: true, childList: true });`}); err != nil {
		t.Fatal(err)
	}
	first := func(what, resource string) {
		t.Helper()
		p.until("window.firstView")
		took := eval[float64](p, `firstView - Math.max(...performance.getEntriesByType("resource").filter((r) => r.name.includes(`+quote(resource)+`)).map((r) => r.responseEnd))`)
		whole := eval[float64](p, "firstView")
		t.Logf("%s: shown %.0f ms after its data was there, %.0f ms after the navigation began", what, took, whole)
	}
	few := func(what string) {
		t.Helper()
		n := eval[int](p, `document.querySelectorAll("*").length`)
		t.Logf("%s: %d elements", what, n)
		if n > maxElements {
			t.Errorf("%s has %d elements; want at most %d", what, n, maxElements)
		}
	}
	p.visit(c.url + "#/map")
	first("map", "api/map")
	p.until(`document.querySelectorAll(".tile").length === 250`)
	few("map")

	p.visit(c.url + "#/services")
	first("services", "api/services")
	p.sees("5,000 services")
	few("services")
	p.do(`document.querySelector('.rows [tabindex="0"]').focus()`)
	p.press(kb.End)
	p.until(`document.activeElement.innerText.includes("ns-99/svc-4999")`)
	few("services, at the end")
	p.fill("#search", "svc-1234")
	p.sees("1 of 5,000 services")

	p.visit(c.url + "#/service/ns-0/svc-0")
	first("a service of 250 clusters", "api/service?")
	p.sees("250 places × 250 clusters")
	few("matrix")
	p.do(`document.querySelector('.matrix [tabindex="0"]').focus()`)
	p.do(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "End", ctrlKey: true, bubbles: true }))`)
	p.until(`document.activeElement.dataset.at === "249,250"`)
	few("matrix, at its far corner")

	began := time.Now()
	p.visit(c.url + "#/whatif?if=down+cluster-000")
	p.until(`document.querySelector("#result")?.innerText.includes("of 5000 services")`)
	t.Logf("what if a cluster went down: %s", time.Since(began).Round(time.Millisecond))
	few("what if")
}

// large returns the records of a large set. Every cluster exports the first service; two clusters export each other service, with
// two endpoints each.
func large() (all []runtime.Object) {
	name := func(i int) string { return fmt.Sprintf("cluster-%03d", i) }
	for i := range manyClusters {
		all = append(all, &clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name(i)},
			Spec:       clustersetv1alpha1.MemberClusterSpec{Zone: fmt.Sprintf("zone-%02d", i%25), Region: fmt.Sprintf("region-%d", i%5)},
			Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady, AgentVersion: "v0.12.0"},
		})
	}
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for s := range manyServices {
		ns, svc := "ns-"+strconv.Itoa(s/50), "svc-"+strconv.Itoa(s)
		by := []int{s % manyClusters, (s*7 + 1) % manyClusters}
		if s == 0 {
			by = nil
			for i := range manyClusters {
				by = append(by, i)
			}
		}
		for n, i := range by {
			if n > 0 && i == by[0] {
				continue
			}
			meta := metav1.ObjectMeta{Namespace: api.MemberNamespace(name(i)), Name: svc + "." + ns}
			all = append(all, &clustersetv1alpha1.ExportedService{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: ns, ServiceName: svc, Type: mcsv1beta1.ClusterSetIP, ClusterIPs: []string{fmt.Sprintf("10.%d.%d.%d", i, s/250, s%250+1)}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}, ExportedAt: at,
			}})
			meta.Name += ".x-0"
			all = append(all, &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: ns, ServiceName: svc, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []clustersetv1alpha1.Endpoint{{Addresses: []string{fmt.Sprintf("11.%d.%d.%d", i, s/250, s%250)}}, {Addresses: []string{fmt.Sprintf("12.%d.%d.%d", i, s/250, s%250)}}},
			}})
		}
	}
	return all
}

// inProcess serves a console from this process, with the objects in memory: writing and reading a hundred thousand manifests would
// take longer than the test.
func inProcess(t *testing.T, objects []runtime.Object) *consoled {
	t.Helper()
	chromium(t)
	server := console.New(console.Options{})
	server.AddSource(console.Source{Role: console.RoleFiles, State: console.Live, Since: time.Now(), LastAnswer: time.Now()})
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
