package cli

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// contexts writes one kubeconfig with a context for each of the kubeconfigs given.
func contexts(t *testing.T, kubeconfigs map[string]string) (path string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for name, file := range kubeconfigs {
		one, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[at.Cluster], one.AuthInfos[at.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// What clusterset test creates passes admission, also the Pod Security level "restricted", and is gone afterwards, whatever happens. These
// clusters have no nodes and no agents: the rest runs in real ones.
func TestTestCleansUp(t *testing.T) {
	planes := kube.StartAll(t, []kube.Option{kube.WithControllerManager()}, []kube.Option{kube.WithControllerManager()})
	stranger, err := planes[1].KubeconfigFor("stranger")
	if err != nil {
		t.Fatal(err)
	}
	creator, err := planes[1].KubeconfigFor("creator")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := contexts(t, map[string]string{
		"b": planes[0].Kubeconfig(), "s": planes[1].Kubeconfig(), "stranger": stranger, "creator": creator,
	})
	for i, name := range []string{"beijing", "shanghai"} {
		if code, _, stderr := cli(t, "join", "--hub-kubeconfig", planes[0].Kubeconfig(), "--kubeconfig", planes[i].Kubeconfig(), name, "--install-crds"); code != 0 {
			t.Fatal(stderr)
		}
	}
	var clients []client.Client
	for _, p := range planes {
		c, err := connect.NewClient(p.Config())
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	gone := func(t *testing.T, namespace string) {
		t.Helper()
		for i, c := range clients {
			if err := c.Get(t.Context(), types.NamespacedName{Name: namespace}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s is left in cluster %d: %v", namespace, i, err)
			}
		}
	}
	command := func(namespace string, more ...string) []string {
		return append([]string{"test", "--kubeconfig", kubeconfig, "--image", "clusterset:test", "--namespace", namespace}, more...)
	}

	t.Run("time runs out", func(t *testing.T) {
		code, stdout, stderr := cli(t, command("ends", "--context", "b,s", "--timeout", "20s")...)
		if code != exitFailure || strings.Count(stdout, "not tried") != 16 || !strings.Contains(stdout, "the server in beijing doesn't run: no scheduler or kubelet has taken the pod") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
		gone(t, "ends")
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		var stderr bytes.Buffer
		ended := make(chan int)
		go func() {
			ended <- run(ctx, command("interrupted", "--context", "b", "--context", "s"), &bytes.Buffer{}, &stderr)
		}()
		kube.Eventually(t, func() error {
			for i, c := range clients {
				var pods corev1.PodList
				var services corev1.ServiceList
				for list, want := range map[client.ObjectList]int{&pods: 1, &services: 3} {
					if err := c.List(ctx, list, client.InNamespace("interrupted")); err != nil {
						return err
					}
					if n := meta.LenList(list); n != want {
						return fmt.Errorf("cluster %d has %d of %T, want %d", i, n, list, want)
					}
				}
			}
			return nil
		})
		if code, _, stderr := cli(t, command("interrupted", "--context", "b")...); code != exitFailure || !strings.Contains(stderr, "exists in beijing already") {
			t.Errorf("beside another test: exit code %d, %s", code, stderr)
		}
		interrupt()
		if code := <-ended; code != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
		gone(t, "interrupted")
	})
	t.Run("missing rights", func(t *testing.T) {
		planes[1].Apply(t, manifest(t, "creator"))
		for as, want := range map[string]string{"stranger": "refuses: memberclusters", "creator": `cannot create resource "pods"`} {
			if code, _, stderr := cli(t, command("rights", "--context", "b", "--context", as)...); code != exitFailure || !strings.Contains(stderr, want) || !strings.Contains(stderr, "an account that may") {
				t.Errorf("%s: exit code %d, %s", as, code, stderr)
			}
			gone(t, "rights")
		}
	})
	t.Run("kept", func(t *testing.T) {
		code, _, stderr := cli(t, command("kept", "--context", "s", "--timeout", "20s", "--keep")...)
		if code != exitFailure || !strings.Contains(stderr, "kubectl --context s delete namespace kept") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		if err := clients[1].Get(t.Context(), types.NamespacedName{Namespace: "kept", Name: "server"}, &corev1.Pod{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("wrong flags", func(t *testing.T) {
		for want, args := range map[string][]string{
			"--context is required":    {"test", "--image", "i"},
			"lead to the same cluster": command("same", "--context", "s", "--context", "s"),
			"--timeout is 1s":          command("fast", "--context", "s", "--timeout", "1s"),
			"--image is required":      {"test", "--context", "s", "--image", ""},
		} {
			fails(t, exitUsage, want, args...)
		}
	})
}
