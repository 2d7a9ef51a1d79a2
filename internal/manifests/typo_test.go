package manifests

import (
	"reflect"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/internal/index"
)

// Rule A60 of docs/spec/answers.md: a value of the wrong type, which no API server has refused, takes only its own field with it. It would
// otherwise keep what the whole file says from being read: for example, that another cluster is dead.
func TestAValueOfTheWrongTypeTakesNothingElseWithIt(t *testing.T) {
	const others = `
---
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: dead}
status: {phase: Expired}
`
	for name, c := range map[string]struct{ typo, right, said string }{
		"drain": {
			"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: lyon}\nspec: {drain: 'yes', zone: z, weight: 7}\nstatus: {phase: Suspect}",
			"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: lyon}\nspec: {zone: z, weight: 7}\nstatus: {phase: Suspect}",
			"MemberCluster: spec.drain: Invalid value: \"yes\"",
		},
		"weight and a time": {
			"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: lyon, creationTimestamp: yesterday}\nspec: {zone: z, weight: heavy}",
			"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: lyon}\nspec: {zone: z}",
			"MemberCluster: spec.weight: Invalid value: \"heavy\"",
		},
		"an annotation": {
			"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: web, annotations: {clusterset.dev/min-ready: 2, clusterset.dev/prefer: zone}}\nspec: {endpoints: [{addresses: [10.0.0.1]}]}",
			"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: web, annotations: {clusterset.dev/prefer: zone}}\nspec: {endpoints: [{addresses: [10.0.0.1]}]}",
			"GlobalService: metadata.annotations.clusterset.dev/min-ready: Invalid value: \"2\"",
		},
		"an address and a port": {
			"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: web}\nspec: {ports: [{port: http}, {port: 80}], endpoints: [{addresses: [5, 10.0.0.1]}, {addresses: 10.0.0.2}, {addresses: [10.0.0.3]}]}",
			"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: web}\nspec: {ports: [{port: 80}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.3]}]}",
			"GlobalService: spec.endpoints[1].addresses: Invalid value: \"10.0.0.2\"",
		},
		"a whole part": {
			"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: web}\nspec: {type: ClusterSetIP, ips: 10.0.0.1, ports: []}",
			"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: web}\nspec: {type: ClusterSetIP, ports: []}",
			"ServiceImport: spec.ips: Invalid value: \"10.0.0.1\"",
		},
	} {
		objects := func(content string) (all []index.Object, said []string) {
			found, notes, err := Decode("a.yaml", []byte(content))
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, f := range found {
				all = append(all, f.Object)
			}
			for _, n := range notes {
				said = append(said, n.String())
			}
			return all, said
		}
		want, _ := objects(c.right + others)
		got, said := objects(c.typo + others)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if all := strings.Join(said, "\n"); !strings.Contains(all, "a.yaml:1: "+c.said) {
			t.Errorf("%s: it says\n%s", name, all)
		}
		list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(c.typo, "\n", "\n  ") + "\n"
		if found, _ := objects(list); len(found) != 1 {
			t.Errorf("%s: in a List: %v", name, found)
		}
	}
	// A file that was cut off, as on a full disk, may end in the middle of a name: this would be a Suspect cluster's.
	if _, _, err := Decode("a.yaml", []byte("apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: lyon}\nspec: {zone: z}\nstatus: \n  pha")); err == nil {
		t.Error("an incomplete file is used")
	}
}
