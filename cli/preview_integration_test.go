package cli

import (
	"encoding/json"
	"testing"

	"github.com/clusterset/clusterset/cli/preview"
)

const previewedService = `
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: http, protocol: TCP, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints: [{addresses: [10.8.1.20]}, {addresses: [10.8.1.21], conditions: {ready: false}}]
`

// testPreview previews changes to what the hub has, and the export of a Service that a member has.
func testPreview(t *testing.T, s lookedAt) {
	s.member.Apply(t, []byte(previewedService))
	show := func(code int, args ...string) (r preview.Result) {
		t.Helper()
		got, stdout, stderr := cli(t, append([]string{"preview", "-o", "json", "--hub-kubeconfig", s.hub.Kubeconfig()}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &r); got != code || err != nil {
			t.Fatalf("preview %v: exit code %d, want %d, %v: %s", args, got, code, err, stderr)
		}
		return r
	}
	r := show(0, "export", "shop/cart", "--from", "beijing", "--kubeconfig", s.member.Kubeconfig())
	if len(r.Services) != 1 || r.Services[0].Effects[0] != preview.Gained || r.Services[0].Cells[0].After.ClusterSetIP.Ready != 1 || len(r.Notes) > 0 {
		t.Errorf("the export of shop/cart shows %+v", r)
	}
	r = show(0, "unexport", "shop/web", "--from", "shanghai")
	if len(r.Services) != 1 || len(r.Services[0].Conflicts) != 1 || !r.Services[0].Conflicts[0].Ends {
		t.Errorf("the end of shanghai's export shows %+v", r)
	}
	// The agent's own credentials are sufficient.
	if code, _, stderr := cli(t, "preview", "down", "shanghai", "--hub-kubeconfig", s.agentKubeconfig(t)); code != 0 {
		t.Errorf("as a member's agent: exit code %d, %s", code, stderr)
	}
	fails(t, exitFailure, "shop/none can't be exported from beijing: there is no Service shop/none",
		"preview", "export", "shop/none", "--from", "beijing", "--hub-kubeconfig", s.hub.Kubeconfig(), "--kubeconfig", s.member.Kubeconfig())
	fails(t, exitUsage, "is beijing, not shanghai",
		"preview", "export", "shop/cart", "--from", "shanghai", "--hub-kubeconfig", s.hub.Kubeconfig(), "--kubeconfig", s.member.Kubeconfig())
	fails(t, exitFailure, "is a member and not the hub", "preview", "down", "beijing", "--hub-kubeconfig", s.member.Kubeconfig())
}
