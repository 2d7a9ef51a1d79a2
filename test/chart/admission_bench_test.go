package chart

import (
	"fmt"
	"os/exec"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset/clusterset/test/kube"
)

// BenchmarkPolicies writes a record of 100 endpoints to a hub with admission policies, with few and with many members.
func BenchmarkPolicies(b *testing.B) {
	plane := kube.Start(b)
	for _, content := range CRDs() {
		plane.Apply(b, content)
	}
	out, err := exec.Command(built(b, "clusterset"), "join", "--hub-kubeconfig", plane.Kubeconfig(), "lyon", "--cidrs", "10.1.0.0/16").CombinedOutput()
	if err != nil {
		b.Fatalf("clusterset join: %v\n%s", err, out)
	}
	all := objects(b, render(b, Options{"clusterset", "clusterset-system", "{dns: {enabled: false}, member: {enabled: false}, hub: {enabled: true, admissionPolicy: {enabled: true}}}", newest}).Manifests)
	plane.Apply(b, encode(b, only(all, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"))...)
	config := plane.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	var addresses []string
	for i := range 100 {
		addresses = append(addresses, fmt.Sprintf("10.1.0.%d", i))
	}
	lyon := &policyMember{client: client}
	record := exportedEndpoints("lyon", addresses...)
	members := 1
	for _, n := range []int{2, 250} {
		for ; members < n; members++ {
			mc := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "clusterset.dev/v1alpha1", "kind": "MemberCluster", "metadata": map[string]any{"name": fmt.Sprintf("other-%d", members)},
				"spec": map[string]any{"cidrs": []any{"10.2.0.0/16"}},
			}}
			gvr := schema.GroupVersionResource{Group: "clusterset.dev", Version: "v1alpha1", Resource: "memberclusters"}
			if _, err := client.Resource(gvr).Create(b.Context(), mc, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("%d members", n), func(b *testing.B) {
			for b.Loop() {
				if err := lyon.create(record); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
