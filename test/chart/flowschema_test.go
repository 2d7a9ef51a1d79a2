package chart

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	flow, err := client(t, c.Config()).Resource(schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"}).
		Get(t.Context(), schemas[0].GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := configOf(t, c.join(t, "nice"))
	by := &flowHeader{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { by.next = next; return by })
	member := client(t, config)
	leases := member.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace(api.MemberNamespace("nice"))
	records := member.Resource(schema.GroupVersionResource{Group: "clusterset.dev", Version: "v1alpha1", Resource: "memberclusters"})
	kube.Eventually(t, func() error { // the FlowSchema takes effect a moment after its creation
		// The Lease doesn't exist, but the response names the FlowSchema all the same.
		_, _ = leases.Get(t.Context(), api.HeartbeatLease, metav1.GetOptions{})
		if by.uid != string(flow.GetUID()) {
			return fmt.Errorf("a heartbeat was let in by FlowSchema %s, want %s", by.uid, flow.GetUID())
		}
		return nil
	})
	if _, err := records.List(t.Context(), metav1.ListOptions{}); err != nil || by.uid == string(flow.GetUID()) {
		t.Errorf("other requests were let in by FlowSchema %s, %v", by.uid, err)
	}
}

// flowHeader records which FlowSchema the last request matched.
type flowHeader struct {
	next http.RoundTripper
	uid  string
}

func (f *flowHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	if err == nil {
		f.uid = response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid")
	}
	return response, err
}
