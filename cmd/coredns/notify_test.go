package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/freeport"
)

// soon bounds how long a change may take to arrive: half of REFRESH, and many times what it takes.
const soon = 30 * time.Second

// TestASecondaryFollowsAtOnce has a stock secondary transfer a zone of ours. It learns of a change by NOTIFY, long before REFRESH,
// also of the one that a primary brings from a restart.
func TestASecondaryFollowsAtOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects := func(ip string) {
		write("objects.yaml", fmt.Sprintf(`apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: test}
spec:
  type: ClusterSetIP
  ips: [%s]
  ports: [{name: http, protocol: TCP, port: 80}]
`, ip))
	}
	primary, secondary := freeport.For(t), freeport.For(t)
	objects("10.0.0.1")
	primaryFile := fmt.Sprintf(`clusterset.local:%s {
    bind 127.0.0.1
    transfer {
        to 127.0.0.1:%s
    }
    clusterset {
        manifests %s
    }
}
`, primary, secondary, dir)
	stop, _ := startCoreDNS(t, primaryFile)
	_, secondaryLog := startCoreDNS(t, fmt.Sprintf(`clusterset.local:%s {
    bind 127.0.0.1
    secondary {
        transfer from 127.0.0.1:%s
    }
}
`, secondary, primary))
	expectAddress(t, secondary, "web.test.svc.clusterset.local.", "10.0.0.1")
	for i := range 3 {
		before := notifications(t, secondaryLog)
		ip := fmt.Sprintf("10.0.1.%d", i)
		objects(ip)
		expectAddress(t, secondary, "web.test.svc.clusterset.local.", ip)
		if notifications(t, secondaryLog) == before {
			t.Errorf("change %d came without a NOTIFY", i)
		}
	}
	stop()
	objects("10.0.0.2")
	before := notifications(t, secondaryLog)
	startCoreDNS(t, primaryFile)
	expectAddress(t, secondary, "web.test.svc.clusterset.local.", "10.0.0.2")
	if notifications(t, secondaryLog) == before {
		t.Error("the change while the primary was away came without a NOTIFY")
	}
}

// notifications counts those that the secondary's log speaks of.
func notifications(t *testing.T, log string) int {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "Notify from 127.0.0.1 for clusterset.local.: checking transfer")
}

// coreDNS is a process. corefile is its path, log what it writes.
type coreDNS struct {
	cmd           *exec.Cmd
	corefile, log string
	stop          func()
}

// startCoreDNS starts the command with a Corefile, until stop or the test's end. It returns the file that the log is in.
func startCoreDNS(t *testing.T, corefile string) (stop func(), log string) {
	t.Helper()
	s := runCoreDNS(t, corefile)
	return s.stop, s.log
}

func runCoreDNS(t *testing.T, corefile string) *coreDNS {
	t.Helper()
	dir := t.TempDir()
	s := &coreDNS{corefile: filepath.Join(dir, "Corefile"), log: filepath.Join(dir, "log")}
	if err := os.WriteFile(s.corefile, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cmd = exec.CommandContext(ctx, os.Args[0], "-conf", s.corefile)
	s.cmd.Env = append(os.Environ(), asCommand+"=1")
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		cancel()
		_ = s.cmd.Wait()
		_ = out.Close()
		if text, err := os.ReadFile(s.log); err == nil && t.Failed() {
			t.Logf("%s\n%s", corefile, text)
		}
	})
	t.Cleanup(s.stop)
	return s
}
