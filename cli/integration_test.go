package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
	testprocess "github.com/clusterset/clusterset/test/process"
)

// cli runs a command until it ends.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// asCommand is the environment variable that makes this test binary run as the clusterset command.
const asCommand = "TEST_RUN_CLUSTERSET"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		Main()
	}
	os.Exit(m.Run())
}

// start runs a command in its own process, until stop, which returns its exit code, or the end of the test.
func start(t *testing.T, args ...string) (stop func() int, output *testprocess.Output) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	p, output := testprocess.StartFor(t, cmd, "clusterset "+args[0])
	return func() int { return p.Stop(time.Minute) }, output
}

// TestAMembership follows a membership from join to leave, with the member and the hub process running in between.
func TestAMembership(t *testing.T) {
	planes := kube.StartAll(t, nil, nil)
	hub, member := planes[0], planes[1]
	ctx := t.Context()
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", member.Kubeconfig(),
		"beijing", "--zone", "cn-north-1a", "--region", "cn-north-1", "--install-crds")
	if code != 0 || !strings.Contains(stdout, "beijing is a member") {
		t.Fatalf("join: exit code %d, %s%s", code, stdout, stderr)
	}

	onHub, err := connect.NewClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	here, err := connect.NewClient(member.Config())
	if err != nil {
		t.Fatal(err)
	}
	// A second member makes the agent write a Reachability.
	if err := onHub.Create(ctx, &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "shanghai"}}); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: api.SystemNamespace, Name: api.HubSecret}
	if err := here.Get(ctx, key, secret); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "hub")
	if err := os.WriteFile(kubeconfig, secret.Data[api.HubSecretKey], 0o600); err != nil {
		t.Fatal(err)
	}

	// The agent starts while the hub is down.
	hub.StopAPIServer()
	member.Apply(t, []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {fabedge.io/global-service: "true"}}
spec: {ports: [{port: 80}]}
`))
	stopMember, _ := start(t, "member", "--kubeconfig", member.Kubeconfig(), "--hub-kubeconfig", kubeconfig, "--hub-secret", key.String(),
		"--heartbeat-interval", "1s", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--leader-elect", "--leader-elect-namespace", api.SystemNamespace)
	export := func() error {
		return here.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, serviceExport())
	}
	kube.Eventually(t, export)
	if err := hub.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	stopHub, _ := start(t, "hub", "--kubeconfig", hub.Kubeconfig(), "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
	kube.Eventually(t, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := onHub.Get(ctx, types.NamespacedName{Name: "beijing"}, mc); err != nil || mc.Status.Phase != clustersetv1alpha1.MemberReady {
			return fmt.Errorf("phase %q, %w", mc.Status.Phase, err)
		}
		return onHub.Get(ctx, types.NamespacedName{Namespace: "clusterset-member-beijing", Name: "web.shop"}, &clustersetv1alpha1.ExportedService{})
	})
	// The hub process leaves a sign of life, though it isn't elected and the hub is a bare one.
	kube.Eventually(t, func() error {
		if at, err := view.HubProcess(ctx, &objects.Cluster{Client: onHub, What: "hub"}); err != nil || at.IsZero() {
			return fmt.Errorf("no sign of the hub process: %w", err)
		}
		return nil
	})
	// The cluster's own export comes back as an import.
	kube.Eventually(t, func() error {
		return errors.Join(
			here.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, serviceImport()),
			here.Get(ctx, types.NamespacedName{Name: "beijing"}, &clustersetv1alpha1.MemberCluster{}),
			here.Get(ctx, types.NamespacedName{Name: clustersetv1alpha1.ReachabilityName}, &clustersetv1alpha1.Reachability{}))
	})
	for _, tc := range []struct{ args, want []string }{
		{[]string{"services", "-A"}, []string{"shop ", "web ", "beijing ", "0 ", "all ", "NoEndpoints"}},
		{[]string{"services", "shop/web"}, []string{"shop ", "web ", "beijing "}},
		{[]string{"services", "-n", "shop", "-o", "json"}, []string{`"name": "web"`, `"cluster": "beijing"`, `"everyone": true`}},
		{[]string{"version"}, []string{"command line ", "agent ", "beijing "}},
	} {
		code, stdout, stderr := cli(t, append(tc.args, "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", member.Kubeconfig())...)
		for _, word := range tc.want {
			if code != 0 || !strings.Contains(stdout, word) {
				t.Errorf("%q: exit code %d, no %q in\n%s%s", tc.args, code, word, stdout, stderr)
			}
		}
	}
	if code, stdout, stderr := cli(t, "leave", "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", member.Kubeconfig(), "beijing", "--yes"); code != exitFailure || !strings.Contains(stderr, "its agent runs") {
		t.Errorf("leave with a running agent: exit code %d, %s%s", code, stdout, stderr)
	}
	if code := stopMember(); code != 0 {
		t.Errorf("member: exit code %d", code)
	}
	if code := stopHub(); code != 0 {
		t.Errorf("hub: exit code %d", code)
	}

	code, stdout, stderr = cli(t, "leave", "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", member.Kubeconfig(), "beijing", "--yes")
	if code != 0 || !strings.Contains(stdout, "beijing has left") {
		t.Errorf("leave: exit code %d, %s%s", code, stdout, stderr)
	}
	if err := onHub.Get(ctx, types.NamespacedName{Name: "clusterset-member-beijing"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("its namespace on the hub: %v", err)
	}
	for name, left := range everything(t, member) {
		if left.GetLabels()[api.LabelManagedBy] != "" {
			t.Errorf("%s is left", name)
		}
	}
	if err := here.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, &corev1.Service{}); err != nil {
		t.Errorf("the user's Service: %v", err)
	}
}

// everything returns all objects of a cluster, by resource and name.
func everything(t *testing.T, plane *kube.ControlPlane) map[string]*unstructured.Unstructured {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "componentstatuses" {
				continue
			}
			found, err := objects.Resource(group.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range found.Items {
				all[resource.Name+" "+client.ObjectKeyFromObject(&found.Items[i]).String()] = &found.Items[i]
			}
		}
	}
	return all
}

func serviceExport() client.Object { return mcsObject("ServiceExport") }
func serviceImport() client.Object { return mcsObject("ServiceImport") }

func mcsObject(kind string) client.Object {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("multicluster.x-k8s.io/v1beta1")
	o.SetKind(kind)
	return o
}
