package chart

import (
	"bytes"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// runsAgents runs the hub process and a member's agent with the rendered arguments and rights, in a cluster that is both hub and
// member. It goes from `clusterset join` to an imported service, and checks that no request was forbidden.
func (c *cluster) runsAgents(t *testing.T) {
	values := read(t, filepath.Join(chartDir, "examples", "hub-and-member.yaml")) // this example has metrics enabled
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests)
	c.Apply(t, encode(t, only(all, append(rbacKinds, policyKinds...)...))...)
	hub, member := deployment(t, all, "hub"), deployment(t, all, "member")
	c.join(t, "beijing", "--kubeconfig", c.Kubeconfig())
	addresses := []string{
		c.start(t, hub, nil),
		c.start(t, member, map[string]string{"/etc/clusterset/hub": c.mount(t, member)}),
		c.startDNS(t, all).Metrics,
	}
	c.Apply(t, []byte(`
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: shanghai} # whether it is reached is a metric
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {fabedge.io/global-service: "true"}}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.7]}]
`))
	c.expect(t, "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: beijing}, status: {phase: Ready}}")
	c.expect(t, "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {namespace: shop, name: web}, spec: {type: ClusterSetIP}}")
	c.expect(t, "{apiVersion: dns.fabedge.io/v1alpha1, kind: GlobalService, metadata: {namespace: shop, name: web}, spec: {type: ClusterIP}}")
	for _, d := range []*appsv1.Deployment{hub, member} {
		user, _ := identity(d)
		kube.Eventually(t, func() error { return c.noneForbidden(user) })
	}
	exports(t, "", addresses...)
}

// account returns the path of a kubeconfig with the rights of a Deployment's account.
func (c *cluster) account(t *testing.T, d *appsv1.Deployment) string {
	t.Helper()
	user, groups := identity(d)
	kubeconfig, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// start runs a Deployment's process with its account, and returns the address of its metrics. folders maps the pod's volume paths
// to folders here.
func (c *cluster) start(t *testing.T, d *appsv1.Deployment, folders map[string]string) (metrics string) {
	t.Helper()
	metrics = "127.0.0.1:" + freeport.For(t)
	start(t, nil, "clusterset", append(arguments(d, folders), "--kubeconfig", c.account(t, d), "--leader-elect-namespace", d.Namespace,
		"--metrics-bind-address", metrics, "--health-probe-bind-address", "127.0.0.1:"+freeport.For(t))...)
	return metrics
}

// arguments returns a Deployment's command line without the program's name.
func arguments(d *appsv1.Deployment, folders map[string]string) []string {
	container := d.Spec.Template.Spec.Containers[0]
	args := append(slices.Clone(container.Command[1:]), container.Args...)
	for i := range args {
		for pod, here := range folders {
			args[i] = strings.ReplaceAll(args[i], pod, here)
		}
	}
	return args
}

// mount writes the Secret that join created into a folder, as the kubelet does.
func (c *cluster) mount(t *testing.T, d *appsv1.Deployment) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	secret, err := clients.CoreV1().Secrets(d.Namespace).Get(t.Context(), d.Spec.Template.Spec.Volumes[0].Secret.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for key, content := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noneForbidden returns an error if a request of the user was forbidden, according to the API server's audit log. It is also an
// error if the log has no request of the user, because the test would then look for the wrong one.
func (c *cluster) noneForbidden(user string) error {
	content, err := os.ReadFile(c.audit)
	if err != nil {
		return err
	}
	seen := false
	for line := range bytes.Lines(content) {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct{ Code int }
		}
		if json.Unmarshal(line, &event) != nil || event.User.Username != user {
			continue
		}
		if event.ResponseStatus.Code == 403 {
			return fmt.Errorf("%s may not %s %s", user, event.Verb, event.RequestURI)
		}
		seen = true
	}
	if !seen {
		return fmt.Errorf("%s has made no request", user)
	}
	return nil
}

// understandsArguments runs the programs with the arguments of every example. They must get as far as the first thing that they
// can't read.
func understandsArguments(t *testing.T) {
	for _, e := range examples(t) {
		all := objects(t, render(t, e.Options).Manifests)
		for _, component := range []string{"member", "hub"} {
			d := deployment(t, all, component)
			if d == nil {
				continue
			}
			args := append(arguments(d, nil), "--kubeconfig", filepath.Join(t.TempDir(), "none"))
			out, err := exec.Command(built(t, "clusterset"), args...).CombinedOutput()
			if !errors.As(err, new(*exec.ExitError)) || !strings.Contains(string(out), "load kubeconfig") {
				t.Errorf("%s: clusterset %s: %v, %s", e.name, strings.Join(args, " "), err, out)
			}
		}
	}
}
