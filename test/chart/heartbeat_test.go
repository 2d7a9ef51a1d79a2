package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset/clusterset/api"
)

// boundsHeartbeats makes a member's heartbeat larger in every way that a Lease can be. Rule C55 of docs/spec/control-plane.md.
func boundsHeartbeats(t *testing.T, lyon *policyMember) {
	full := lease("lyon", api.HeartbeatLease) + "spec: {holderIdentity: " + strings.Repeat("h", 253) + ", leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z'}\n"
	full = strings.Replace(full, "metadata: {", "metadata: {labels: {clusterset.dev/managed-by: exporter, clusterset.dev/cluster: lyon}, ", 1)
	if err := lyon.keep(full); err != nil {
		t.Fatalf("the largest heartbeat of an agent: %v", err)
	}
	leases := lyon.resource("leases", api.MemberNamespace("lyon"))
	long := strings.Repeat("x", 1<<20)
	many := func(key func(int) string, value any) map[string]any {
		all := map[string]any{}
		for i := range 1000 {
			all[key(i)] = value
		}
		return all
	}
	metadata := func(field string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{field: value}}
	}
	manager := func(name string, fields map[string]any) map[string]any {
		return map[string]any{"manager": name, "operation": "Apply", "apiVersion": "coordination.k8s.io/v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
	}
	var managers []any
	for i := range 1000 {
		managers = append(managers, manager(fmt.Sprintf("m%d", i), map[string]any{"f:spec": map[string]any{"f:holderIdentity": map[string]any{}}}))
	}
	deep := map[string]any{}
	for range 1000 {
		deep = map[string]any{"f:metadata": deep}
	}
	key := func(i int) string { return fmt.Sprintf("example.com/k%d", i) }
	owner := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
	const fields = "at most 8 managers of its fields"
	tries := map[string]struct {
		patch map[string]any
		says  string // part of the refusal, "" if it is accepted
	}{
		"a holder of 1 MiB": {map[string]any{"spec": map[string]any{"holderIdentity": long}}, "names of at most 253"},
		// API servers without CoordinatedLeaderElection drop these.
		"a preferred holder of 1 MiB":   {map[string]any{"spec": map[string]any{"preferredHolder": long, "strategy": "example.com/" + long}}, ""},
		"an annotation":                 {metadata("annotations", map[string]any{"x": "y"}), "no annotations, finalizers and owners"},
		"many labels":                   {metadata("labels", many(key, "x")), "at most 8 labels"},
		"many owners":                   {metadata("ownerReferences", slices.Repeat([]any{owner}, 1000)), "no annotations, finalizers and owners"},
		"a finalizer":                   {metadata("finalizers", []any{"example.com/a"}), "no annotations, finalizers and owners"},
		"many managers of fields":       {metadata("managedFields", managers), fields},
		"a manager of many fields":      {metadata("managedFields", []any{manager("m", map[string]any{"f:spec": many(func(i int) string { return fmt.Sprintf("f:x%d", i) }, map[string]any{})})}), fields},
		"a manager of a field of 1 MiB": {metadata("managedFields", []any{manager("m", map[string]any{"f:" + long: map[string]any{}})}), fields},
		"a manager of fields of fields": {metadata("managedFields", []any{manager("m", deep)}), fields},
		"many renewals":                 {map[string]any{"spec": map[string]any{"leaseTransitions": 1 << 30}}, ""},
	}
	for _, what := range slices.Sorted(maps.Keys(tries)) {
		try := tries[what]
		patch, err := json.Marshal(try.patch)
		if err != nil {
			t.Fatal(err)
		}
		_, err = leases.Patch(t.Context(), api.HeartbeatLease, types.MergePatchType, patch, metav1.PatchOptions{})
		if try.says == "" && err != nil || try.says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), try.says)) {
			t.Errorf("%s: %.300v, want %q", what, err, try.says)
		}
	}
	if size := sizeOf(t, leases); size > 8<<10 {
		t.Errorf("after all attempts the heartbeat has %d bytes", size)
	}
}

// sizeOf returns the size of a member's heartbeat.
func sizeOf(t *testing.T, leases dynamic.ResourceInterface) int {
	t.Helper()
	kept, err := leases.Get(t.Context(), api.HeartbeatLease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	content, err := kept.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the heartbeat has %d bytes", len(content))
	return len(content)
}
