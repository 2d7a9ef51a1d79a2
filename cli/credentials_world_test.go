package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	testprocess "github.com/clusterset/clusterset/test/process"
)

type credentials struct {
	whole         *testing.T // the parent test: the processes run longer than its subtests
	hub, member   *kube.ControlPlane
	onHub, here   client.Client
	kubeconfig    string                // of the agent, for the hub
	outputs       []*testprocess.Output // of all processes, and of the commands that the test runs itself
	stop          func() int
	metrics       fleet.Metrics // of the agent
	secrets       []string
	firstImported types.UID
}

func startCredentials(t *testing.T) *credentials {
	planes := kube.StartAll(t, nil, nil)
	w := &credentials{whole: t, hub: planes[0], member: planes[1], outputs: []*testprocess.Output{{}}}
	dir := t.TempDir()
	w.kubeconfig = filepath.Join(dir, "hub")
	var err error
	if w.onHub, err = connect.NewClient(w.hub.Config()); err != nil {
		t.Fatal(err)
	}
	if w.here, err = connect.NewClient(w.member.Config()); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "beijing", "--install-crds")
	if code != 0 {
		t.Fatalf("join: exit code %d, %s", code, stderr)
	}
	w.install(t, stdout)
	if err := join.InstallMemberCRDs(t.Context(), join.At(w.member.Config())); err != nil {
		t.Fatal(err)
	}
	w.member.Apply(t, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"))
	for _, c := range []*kube.ControlPlane{w.hub, w.member} {
		w.keep(string(c.Config().KeyData))
	}
	w.startProcess("hub", "--kubeconfig", w.hub.Kubeconfig())
	return w
}

// startProcess runs a command whose output is searched at the end. It returns a function that stops the command, and the address of its
// metrics.
func (w *credentials) startProcess(args ...string) (stop func() int, metrics string) {
	metrics = "127.0.0.1:" + freeport.For(w.whole)
	stop, output := start(w.whole, append(args, "--log-level", "debug", "--metrics-bind-address", metrics, "--health-probe-bind-address", "0")...)
	w.outputs = append(w.outputs, output)
	return stop, metrics
}

func (w *credentials) startAgent() {
	w.stop, w.metrics.Addr = w.startProcess("member", "--kubeconfig", w.member.Kubeconfig(), "--hub-kubeconfig", w.kubeconfig, "--hub-secret", hubSecret.String(), "--heartbeat-interval", "1s")
}

func (w *credentials) logs() string {
	var all strings.Builder
	for _, o := range w.outputs {
		all.WriteString(o.String())
	}
	return all.String()
}

var hubSecret = types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}

// install replaces the agent's Secret, and its file in one step, as the kubelet does.
func (w *credentials) install(t *testing.T, kubeconfig string) {
	t.Helper()
	w.keep(tokenOf(t, kubeconfig))
	if err := join.InstallSecret(t.Context(), w.here, hubSecret, "beijing", []byte(kubeconfig)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.kubeconfig+".next", []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.kubeconfig+".next", w.kubeconfig); err != nil {
		t.Fatal(err)
	}
}

func (w *credentials) installed(t *testing.T) string {
	t.Helper()
	var secret corev1.Secret
	if err := w.here.Get(t.Context(), hubSecret, &secret); err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[api.HubSecretKey])
}

// keep remembers a secret that must not be disclosed anywhere.
func (w *credentials) keep(secret string) { w.secrets = append(w.secrets, secret) }

// exports creates an exported Service and waits until the hub has it.
func (w *credentials) exports(t *testing.T, name string) {
	t.Helper()
	w.create(t, name)
	kube.Eventually(t, func() error { return w.exported(t, name) })
}

func (w *credentials) create(t *testing.T, name string) {
	t.Helper()
	w.member.Apply(t, []byte(`
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: `+name+`, annotations: {fabedge.io/global-service: "true"}}
spec: {ports: [{port: 80}]}
`))
}

func (w *credentials) exported(t *testing.T, name string) error {
	key := types.NamespacedName{Namespace: api.MemberNamespace("beijing"), Name: api.ExportedServiceName("shop", name)}
	return w.onHub.Get(t.Context(), key, &clustersetv1alpha1.ExportedService{})
}

// imported checks that the first import is still there, as the same object.
func (w *credentials) imported(t *testing.T) {
	t.Helper()
	o := serviceImport()
	if err := w.here.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, o); err != nil || o.GetUID() != w.firstImported {
		t.Errorf("the import is %s, was %s: %v", o.GetUID(), w.firstImported, err)
	}
}

// said returns nil if a line of the logs contains all the words.
func (w *credentials) said(words ...string) error {
	for line := range strings.Lines(w.logs()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("no line of the logs says %q", words)
}

// asks sends the hub a request with a token.
func (w *credentials) asks(t *testing.T, token string) error {
	config := w.hub.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token
	c, err := connect.NewClient(config)
	if err != nil {
		return err
	}
	return c.List(t.Context(), &clustersetv1alpha1.MemberClusterList{})
}
