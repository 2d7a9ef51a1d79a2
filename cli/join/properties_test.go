package join_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/kube"
)

// The CRD of about.k8s.io (KEP-2149), reduced to the form of a ClusterProperty.
const clusterPropertyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/issues/2149"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {kind: ClusterProperty, plural: clusterproperties, singular: clusterproperty}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [value]
            properties: {value: {type: string, minLength: 1, maxLength: 128000}}
`

const foreignProperty = `{apiVersion: about.k8s.io/v1beta1, kind: ClusterProperty, metadata: {name: clusterset.k8s.io}, spec: {value: theirs}}`

// If a member has the kind, its ClusterProperties contain its name and the set's name from join to leave.
func TestClusterProperties(t *testing.T) {
	t.Parallel()
	plane := kube.Start(t)
	ctx := t.Context()
	member := newClient(t, plane.Config())
	if err := join.WriteProperties(ctx, member, "beijing", "china"); err != nil {
		t.Errorf("without their CRD: %v", err)
	}
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Errorf("without their CRD: %v", err)
	}
	plane.Apply(t, []byte(clusterPropertyCRD))
	check := func(what string, want map[string]string) {
		t.Helper()
		all := &unstructured.UnstructuredList{}
		all.SetAPIVersion("about.k8s.io/v1beta1")
		all.SetKind("ClusterPropertyList")
		if err := member.List(ctx, all); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range all.Items {
			got[p.GetName()], _, _ = unstructured.NestedString(p.Object, "spec", "value")
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	write := func(cluster, set string) {
		t.Helper()
		if err := join.WriteProperties(ctx, member, cluster, set); err != nil {
			t.Error(err)
		}
	}
	member = newClient(t, plane.Config()) // the first client has cached that the kind doesn't exist
	write("beijing", "china")
	check("after a join", map[string]string{"cluster.clusterset.k8s.io": "beijing", "clusterset.k8s.io": "china"})
	write("beijing", "") // like the agent, which doesn't know the set's name
	check("after a start of the agent", map[string]string{"cluster.clusterset.k8s.io": "beijing", "clusterset.k8s.io": "china"})
	write("tianjin", "china")
	check("after a join under another name", map[string]string{"cluster.clusterset.k8s.io": "tianjin", "clusterset.k8s.io": "china"})
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Error(err)
	}
	check("after a leave", map[string]string{})

	plane.Apply(t, []byte(foreignProperty))
	if err := join.WriteProperties(ctx, member, "", "china"); err == nil || !strings.Contains(err.Error(), `it says "theirs", not "china"; clusterset didn't create it`) {
		t.Errorf("somebody else's property: %v", err)
	}
	write("beijing", "theirs")
	if err := join.RemoveProperties(ctx, member); err != nil {
		t.Error(err)
	}
	check("somebody else's stays", map[string]string{"clusterset.k8s.io": "theirs"})
}
