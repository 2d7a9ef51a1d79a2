package kube_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/test/kube"
)

// launchEnv names a folder. It makes the test binary launch a control plane there and wait until it is killed.
const launchEnv = "CLUSTERSET_TEST_LAUNCH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(launchEnv); dir != "" {
		cp, err := kube.Launch(context.Background(), dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(cp.URL())
		select {}
	}
	os.Exit(m.Run())
}

// The packages that use it test everything else of this one.
func TestDataOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	// Without a version, the API server doesn't know which of its APIs and feature gates apply.
	if v, err := client.Discovery().ServerVersion(); err != nil || !strings.HasPrefix(v.GitVersion, "v"+v.Major+"."+v.Minor+".") || v.Major != "1" {
		t.Errorf("the API server calls itself %v, %v", v, err)
	}
	cp.Apply(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"))
	for _, end := range []func(){cp.StopAPIServer, cp.KillAPIServer} {
		end()
		if conn, err := net.Dial("tcp", strings.TrimPrefix(cp.URL(), "https://")); err == nil {
			conn.Close()
			t.Error("something accepts connections on the port of an API server that is down")
		}
		if err := cp.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		// An existing client still works, because the address and the CA are the same.
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestAFailedLaunchSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	cp, err := kube.Launch(t.Context(), t.TempDir(), kube.WithAPIServerArgs("--authorization-mode=Whim"))
	if err == nil {
		cp.Stop()
		t.Fatal("the API server accepted an authorization mode that does not exist")
	}
	// The error must quote the API server, and not only report the timeout.
	if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not a valid mode") {
		t.Errorf("got %v", err)
	}
}

func TestAKilledTestLeavesNoControlPlane(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child of its parent's death")
	}
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), launchEnv+"="+t.TempDir(), "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	addr := strings.TrimPrefix(strings.TrimSpace(line), "https://")
	up, dialErr := net.Dial("tcp", addr)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if readErr != nil || dialErr != nil {
		t.Fatalf("the control plane did not come up at %q: %v, %v", addr, readErr, dialErr)
	}
	up.Close()
	kube.Eventually(t, func() error {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return fmt.Errorf("something still listens at %s", addr)
		}
		return nil
	})
}
