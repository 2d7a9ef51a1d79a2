package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/process"
)

// soon bounds how long a change may take to arrive. It is half of REFRESH, and many times as long as a change takes.
const soon = 2 * time.Minute

// TestASecondaryFollowsAtOnce runs a stock secondary that transfers one of our zones. NOTIFY tells it of a change long before REFRESH, even
// of a change made while the primary was down.
func TestASecondaryFollowsAtOnce(t *testing.T) {
	dir := t.TempDir()
	objects := func(ip string) {
		t.Helper()
		text := strings.Replace(expressObjects, "10.42.0.1", ip, 1)
		if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
	server := startCoreDNS(t, primaryFile)
	follower := startCoreDNS(t, fmt.Sprintf(`clusterset.local:%s {
    bind 127.0.0.1
    secondary {
        transfer from 127.0.0.1:%s
    }
}
`, secondary, primary))
	expectAddress(t, secondary, "web.test.svc.clusterset.local.", "10.0.0.1")
	for i := range 3 {
		before := notifications(follower)
		ip := fmt.Sprintf("10.0.1.%d", i)
		objects(ip)
		expectAddress(t, secondary, "web.test.svc.clusterset.local.", ip)
		if notifications(follower) == before {
			t.Errorf("change %d came without a NOTIFY", i)
		}
	}
	server.Kill()
	objects("10.0.0.2")
	before := notifications(follower)
	startCoreDNS(t, primaryFile)
	expectAddress(t, secondary, "web.test.svc.clusterset.local.", "10.0.0.2")
	if notifications(follower) == before {
		t.Error("the change while the primary was away came without a NOTIFY")
	}
}

// notifications counts the NOTIFY messages in the secondary's log.
func notifications(secondary *coreDNS) int {
	return strings.Count(secondary.log.String(), "Notify from 127.0.0.1 for clusterset.local.: checking transfer")
}

// coreDNS is a running server. corefile is the path of its Corefile.
type coreDNS struct {
	*process.Process
	corefile string
	log      *process.Output
}

// startCoreDNS runs the coredns command with a Corefile. It ends with the test at the latest.
func startCoreDNS(t *testing.T, corefile string) *coreDNS {
	t.Helper()
	s := &coreDNS{corefile: filepath.Join(t.TempDir(), "Corefile")}
	if err := os.WriteFile(s.corefile, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-conf", s.corefile)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	s.Process, s.log = process.StartFor(t, cmd, corefile)
	return s
}
