package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// What a real kube-apiserver and the real programs make of the chart. One control plane serves all: it costs seconds.
func TestOnARealCluster(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	// Requests are logged as they are answered, so that what was forbidden can be found.
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		ControlPlane: kube.Start(t, kube.WithAPIServerArgs("--audit-policy-file="+policy, "--audit-log-path="+audit)),
		audit:        audit,
		coredns:      "coredns",
		clusterset:   "clusterset",
	}
	c.Apply(t, namespaces)
	// In this order: the CustomResourceDefinitions of the chart are tried before they are installed for the rest.
	t.Run("CRDs are accepted", c.acceptsCRDs)
	for _, content := range CRDs() {
		c.Apply(t, content)
	}
	c.Apply(t, operatorCRDs(t)...)
	t.Run("objects are accepted", c.acceptsObjects)
	t.Run("pods learn where they run", c.tellsPodsTheirPlace)
	t.Run("Corefiles start", c.startsCorefiles)
	t.Run("agents run", c.runsAgents)
	t.Run("agents are confined", c.confinesAgents)
	t.Run("members join by their MemberClusters", c.joinsByMemberClusters)
	t.Run("heartbeats go first", c.putsHeartbeatsFirst)
	t.Run("admission policies hold", c.enforcesPolicies)
	t.Run("arguments are understood", understandsArguments)
	t.Run("a release installs", c.installsARelease)
}

type cluster struct {
	*kube.ControlPlane
	audit               string
	coredns, clusterset string // the programs that run, see built
}

// namespaces admit no pod that isn't restricted, and warn of a Deployment whose pods wouldn't be
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

// operator is where the ServiceMonitor's and the PrometheusRule's definitions come from.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// operatorCRDs reads them from the module cache. They are in a folder of the operator's module without Go code, so they can't be imported
// and go.mod can't require them.
func operatorCRDs(t *testing.T) [][]byte {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", operator)
	cmd.Dir = t.TempDir() // of no module: go.mod and go.sum stay as they are
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v\n%s", operator, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	var all [][]byte
	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		all = append(all, []byte(read(t, filepath.Join(module.Dir, "example", "prometheus-operator-crd", fmt.Sprintf("monitoring.coreos.com_%s.yaml", kind)))))
	}
	return all
}
