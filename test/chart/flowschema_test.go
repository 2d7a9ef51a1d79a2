package chart

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// putsHeartbeatsFirst makes a member read its Lease, and checks which FlowSchema matched the request.
func (c *cluster) putsHeartbeatsFirst(t *testing.T) {
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", "{dns: {enabled: false}, member: {enabled: false}, hub: {enabled: true}}", newest}).Manifests)
	schemas := only(all, "FlowSchema")
	if len(schemas) != 1 {
		t.Fatalf("the chart has %d FlowSchemas", len(schemas))
	}
	c.Apply(t, encode(t, schemas)...)
	of, err := rest.HTTPClientFor(configOf(t, c.join(t, "nice")))
	if err != nil {
		t.Fatal(err)
	}
	letInBy := func(path string) (string, error) {
		r, err := of.Get(c.URL() + path)
		if err != nil {
			return "", err
		}
		return r.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"), r.Body.Close()
	}
	flow, err := resources(t, c.Config()).Get(t.Context(), schemas[0])
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { // the FlowSchema takes effect a moment after its creation
		// The Lease doesn't exist, but the response names the FlowSchema all the same.
		by, err := letInBy("/apis/coordination.k8s.io/v1/namespaces/" + api.MemberNamespace("nice") + "/leases/" + api.HeartbeatLease)
		if by != string(flow.GetUID()) {
			return errors.Join(err, fmt.Errorf("a heartbeat was let in by FlowSchema %s, want %s", by, flow.GetUID()))
		}
		return nil
	})
	if by, err := letInBy("/apis/clusterset.dev/v1alpha1/memberclusters"); err != nil || by == string(flow.GetUID()) {
		t.Errorf("other requests were let in by FlowSchema %s, %v", by, err)
	}
}
