package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// A real kube-apiserver and the real programs accept the chart. All tests share one control plane, because each takes seconds to
// start.
func TestOnARealCluster(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	// Requests are logged once they are answered, so that forbidden ones can be found.
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{kube.Start(t, kube.WithAPIServerArgs("--audit-policy-file="+policy, "--audit-log-path="+audit)), audit}
	c.Apply(t, namespaces)
	// The order matters: the chart's CustomResourceDefinitions are tested before they are installed for the other tests.
	t.Run("CRDs are accepted", c.acceptsCRDs)
	c.Apply(t, slices.Collect(maps.Values(shippedCRDs(t)))...)
	// They are in a folder without Go code, so they can't be imported, and go.mod can't require them.
	crds, err := kube.ModuleFiles(t.Context(), "github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd",
		"monitoring.coreos.com_servicemonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, crds...)
	t.Run("objects are accepted", c.acceptsObjects)
	t.Run("Corefiles start", c.startsCorefiles)
	t.Run("agents run", c.runsAgents)
	t.Run("members join by their MemberClusters", c.joinsByMemberClusters)
	t.Run("heartbeats go first", c.putsHeartbeatsFirst)
	t.Run("admission policies hold", c.enforcesPolicies)
	// They leave an importer's copies of MemberClusters, by which join takes an API server for a member's.
	t.Run("agents are confined", c.confinesAgents)
	t.Run("agents are confined, and extend any Service", c.extendsEverywhere)
	t.Run("arguments are understood", understandsArguments)
}

type cluster struct {
	*kube.ControlPlane
	audit string // the path of its log
}

// namespaces admit only restricted pods, and warn about a Deployment whose pods aren't
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/). A warning fails the test, too.
var namespaces = []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: clusterset-system, labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, labels: {pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}
`)
