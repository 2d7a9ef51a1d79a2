package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/process"
)

// system is the namespace in which Envoy Gateway keeps what it makes.
const system = "envoy-gateway-system"

// programs are what the module in ./envoy builds.
type programs struct {
	gateway, envoy string
	source         string // the folder of Envoy Gateway's module
}

// compile compiles the programs: Envoy Gateway the first time, for five minutes, and then Go's build cache has it.
func compile(t *testing.T) programs {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Stderr = "envoy", t.Output()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // it runs where there are no libraries
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out))
	}
	p := programs{envoy: filepath.Join(t.TempDir(), "envoy")}
	p.gateway = run("tool", "-n", "envoy-gateway")
	p.source = run("list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/gateway")
	run("build", "-o", p.envoy, ".")
	return p
}

// envoyGateway is a running Envoy Gateway.
type envoyGateway struct {
	testing.TB
	programs
	member *fleettest.Member
	certs  string // the folder with the certificate of its proxies
}

// start starts Envoy Gateway for a member, until the end of the test. It has its chart's rights and configuration.
//
// It reads its certificate from /certs, and makes a folder in /var/lib: here these are in a root directory of its own.
func start(t *testing.T, p programs, m *fleettest.Member) *envoyGateway {
	t.Helper()
	g := &envoyGateway{TB: t, programs: p, member: m, certs: t.TempDir()}
	crds := filepath.Join(p.source, "charts", "gateway-helm", "charts", "crds", "crds")
	generated, err := filepath.Glob(filepath.Join(crds, "generated", "*.yaml"))
	if err != nil || len(generated) == 0 {
		t.Fatalf("%s: CustomResourceDefinitions: %v, %v", crds, generated, err)
	}
	for _, path := range append(generated, filepath.Join(crds, "gatewayapi-crds.yaml")) {
		m.Apply(string(g.read(path)))
	}
	m.Apply(string(g.read("testdata/rights.yaml")))

	certgen := exec.CommandContext(t.Context(), p.gateway, "certgen", "--disable-topology-injector")
	certgen.Env = []string{"HOME=" + t.TempDir(), "KUBECONFIG=" + m.Plane.Kubeconfig()}
	if out, err := process.CombinedOutput(certgen); err != nil {
		t.Fatalf("envoy-gateway certgen: %v\n%s", err, out)
	}
	root := t.TempDir()
	kubeconfig, err := m.Plane.KubeconfigFor("envoy-gateway")
	if err != nil {
		t.Fatal(err)
	}
	g.write(filepath.Join(root, "kubeconfig"), g.read(kubeconfig))
	if out, err := exec.CommandContext(t.Context(), "cp", p.gateway, filepath.Join(root, "envoy-gateway")).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	g.secret("envoy-gateway", filepath.Join(root, "certs"))
	g.secret("envoy", g.certs)

	server := &fleet.Program{
		Name: "Envoy Gateway of " + m.Spec.Name, Path: "env", Log: filepath.Join(t.TempDir(), "envoy-gateway.log"),
		Args: func() ([]string, error) {
			return []string{"KUBECONFIG=/kubeconfig", "unshare", "--root=" + root, "/envoy-gateway", "server"}, nil
		},
		Up: func(ctx context.Context) error { return corefile.Ready(ctx, "http://127.0.0.1:8081/readyz") },
	}
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Log(process.LogSince(server.Log, 0, 60))
		}
	})
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *envoyGateway) read(path string) []byte {
	g.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		g.Fatal(err)
	}
	return content
}

func (g *envoyGateway) write(path string, content []byte) {
	g.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		g.Fatal(err)
	}
}

// secret writes the content of a Secret of Envoy Gateway's into a folder, as the kubelet does for a pod.
func (g *envoyGateway) secret(name, dir string) {
	g.Helper()
	var secret corev1.Secret
	if err := g.member.Get(system, name, &secret); err != nil {
		g.Fatal(err)
	}
	for key, value := range secret.Data {
		g.write(filepath.Join(dir, key), value)
	}
}

// asProxy returns what a proxy of a Gateway gets, by the names of xDS's clusters; ./envoy says in which form. It authenticates as the
// Deployment's pods do, and says of itself what they say.
func (g *envoyGateway) asProxy(namespace, gateway string) (map[string]string, error) {
	var proxies appsv1.DeploymentList
	err := g.member.List(&proxies, client.InNamespace(system), client.MatchingLabels{
		"gateway.envoyproxy.io/owning-gateway-namespace": namespace, "gateway.envoyproxy.io/owning-gateway-name": gateway,
	})
	if err != nil {
		return nil, err
	}
	if len(proxies.Items) != 1 {
		return nil, fmt.Errorf("there are %d Deployments of proxies of Gateway %s/%s, want 1", len(proxies.Items), namespace, gateway)
	}
	proxy := &proxies.Items[0]
	node := ""
	for _, c := range proxy.Spec.Template.Spec.Containers {
		if i := slices.Index(c.Args, "--service-cluster"); i >= 0 && i+1 < len(c.Args) {
			node = c.Args[i+1]
		}
	}
	cmd := exec.CommandContext(g.Context(), g.envoy, "-certs", g.certs, "-node", proxy.Name+"-0", "-cluster", node)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("ask as a proxy of %s: %w", node, err)
	}
	var all map[string]string
	err = json.Unmarshal(out, &all)
	return all, err
}
