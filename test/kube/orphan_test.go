package kube_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

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

func TestAKilledTestLeavesNoControlPlane(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child of its parent's death")
	}
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	if _, err := kube.Build(t.Context(), kube.BuildProgress(os.Stderr)); err != nil {
		t.Fatal(err)
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
