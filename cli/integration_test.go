package cli

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func serviceImport() client.Object {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("multicluster.x-k8s.io/v1beta1")
	o.SetKind("ServiceImport")
	return o
}
