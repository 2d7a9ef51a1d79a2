package merge_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

// Rule C17 of docs/spec/control-plane.md.
func TestARecordsClusterIsItsNamespaces(t *testing.T) {
	stray := record("a", 1)
	stray.Namespace = "default"
	lying := record("a", 1)
	lying.Labels = map[string]string{api.LabelCluster: "b"}
	exports, drops := merge.Exports(compact(stray, lying), nil)
	if len(exports) != 1 || exports[0].Cluster != "a" {
		t.Errorf("exports are %v", exports)
	}
	if len(drops) != 1 || drops[0].Cluster != "" || !strings.Contains(drops[0].String(), `"default"`) {
		t.Errorf("drops are %v", drops)
	}
}

func TestAnUnusableRecordIsDropped(t *testing.T) {
	ageless := record("a", 1)
	ageless.Spec.ExportedAt = metav1.Time{}
	exports, drops := merge.Exports(compact(ageless, record("b", 5)), nil)
	if len(exports) != 1 || exports[0].Cluster != "b" || len(drops) != 1 || drops[0].Cluster != "a" {
		t.Errorf("exports are %v, drops %v", exports, drops)
	}
}

func TestOneClustersSlicesHaveALimit(t *testing.T) {
	var records []*door.Endpoints
	for i := range merge.MaxSlices + 5 {
		records = append(records, &door.Endpoints{Cluster: "a", Name: fmt.Sprintf("web.shop.x-%04d", i), Usable: true})
	}
	records = append(records, &door.Endpoints{Cluster: "b", Name: "web.shop.x-0", Usable: true})
	var all []*door.Endpoints
	drops := merge.Endpoints(records, func(e *door.Endpoints) (left api.LeftOut) {
		all = append(all, e)
		return left
	})
	if len(all) != merge.MaxSlices+1 || len(drops) != 1 || drops[0].Values.Count != 5 {
		t.Errorf("kept %d, dropped %v", len(all), drops)
	}
	if last := all[len(all)-1]; last.Cluster != "b" {
		t.Errorf("the last is of %s: another cluster paid for the first's excess", last.Cluster)
	}
}

// What is left out of a record, and what its reader leaves out of the rest, is one drop.
func TestDropsOfEndpoints(t *testing.T) {
	because := func(n int) (left api.LeftOut) {
		for i := range n {
			left.Add(func() *field.Error { return field.Invalid(field.NewPath("spec"), i, "because") })
		}
		return left
	}
	records := []*door.Endpoints{
		{Cluster: "b", Name: "2", Left: because(3).First(), Usable: true}, {Cluster: "b", Name: "1", Left: because(1)}, {Cluster: "a", Name: "3", Usable: true},
	}
	var used []string
	drops := merge.Endpoints(records, func(e *door.Endpoints) api.LeftOut {
		used = append(used, e.Name)
		return because(2)
	})
	var got []string
	for _, d := range drops {
		got = append(got, fmt.Sprint(d.Record, " ", d.Values.Count, " ", len(d.Values.Errors)))
	}
	if fmt.Sprint(used, got) != "[3 2] [3 2 1 1 1 1 2 5 1]" {
		t.Errorf("used %v, drops %v", used, got)
	}
	if records[0].Left.Count != 3 {
		t.Error("a value has changed")
	}
}
