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
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
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

// start runs a command in its own process. The function that it returns stops the command and returns its exit code.
func start(t *testing.T, args ...string) (stop func() int) {
	t.Helper()
	var stderr testprocess.Output
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=yes")
	cmd.Stderr = &stderr
	p, err := testprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceValue(func() int {
		code := p.Stop(time.Minute)
		if code != 0 || t.Failed() {
			t.Logf("clusterset %s: exit code %d\n%s", args[0], code, stderr.String())
		}
		return code
	})
	t.Cleanup(func() { stop() })
	return stop
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
	if code, _, stderr := cli(t, "join", "--hub-kubeconfig", hub.Kubeconfig(), "beijing"); code != exitFailure || !strings.Contains(stderr, "the name is in use") {
		t.Errorf("joining again: exit code %d, %s", code, stderr)
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
	stopMember := start(t, "member", "--kubeconfig", member.Kubeconfig(), "--hub-kubeconfig", kubeconfig, "--hub-secret", key.String(),
		"--heartbeat-interval", "1s", "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--leader-elect", "--leader-elect-namespace", api.SystemNamespace)
	export := func() error {
		return here.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, serviceExport())
	}
	kube.Eventually(t, export)
	if err := hub.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	stopHub := start(t, "hub", "--kubeconfig", hub.Kubeconfig(), "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
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
		{[]string{"services", "-A"}, []string{"shop ", "web ", "beijing ", "1 ", "all "}},
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
	for what, err := range map[string]error{
		"Namespace on the hub": onHub.Get(ctx, types.NamespacedName{Name: "clusterset-member-beijing"}, &corev1.Namespace{}),
		"Secret":               here.Get(ctx, key, &corev1.Secret{}),
		"ServiceExport":        export(),
		"ServiceImport":        here.Get(ctx, types.NamespacedName{Namespace: "shop", Name: "web"}, serviceImport()),
		"MemberCluster mirror": here.Get(ctx, types.NamespacedName{Name: "beijing"}, &clustersetv1alpha1.MemberCluster{}),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", what, err)
		}
	}
	if left := labelled(t, member, here); len(left) > 0 {
		t.Errorf("objects with our label are left: %v", left)
	}
	var services corev1.ServiceList
	if err := here.List(ctx, &services, client.InNamespace("shop")); err != nil || len(services.Items) != 1 {
		t.Errorf("%d Services are left in shop, want the user's alone; %v", len(services.Items), err)
	}
	if code, _, stderr := cli(t, "leave", "--hub-kubeconfig", hub.Kubeconfig(), "beijing"); code != exitUsage || !strings.Contains(stderr, "there is no") {
		t.Errorf("leaving again: exit code %d, %s", code, stderr)
	}
}

// labelled lists the objects of every kind of a cluster that have our label.
func labelled(t *testing.T, plane *kube.ControlPlane, c client.Client) (all []string) {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(schema.FromAPIVersionAndKind(group.GroupVersion, kind.Kind+"List"))
			if err := c.List(t.Context(), &list, client.HasLabels{api.LabelManagedBy}); err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				all = append(all, kind.Kind+" "+client.ObjectKeyFromObject(&list.Items[i]).String())
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
