package clusterset_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/ready" // reports whether clusterset is ready

	"github.com/clusterset/clusterset/test/kube"
)

// The old server answers while the new one waits for its first sync. If that counted as not ready, a new Corefile for all servers would
// remove them all from the Service.
func TestReadyDuringAReload(t *testing.T) {
	dir := setupFiles(t)
	probe := freeAddress(t)
	corefile := func(source string) string {
		return fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1
    ready %s {
        monitor continuously
    }
    clusterset {
        %s
    }
}
`, probe, source)
	}
	ready := func() (int, error) {
		r, err := http.Get("http://" + probe + "/ready")
		if err != nil {
			return 0, err
		}
		return r.StatusCode, r.Body.Close()
	}
	eventually := func(want int) {
		t.Helper()
		kube.Eventually(t, func() error { // the endpoint is closed for a moment during a reload
			if got, err := ready(); err != nil || got != want {
				return fmt.Errorf("got %d, %w, want %d", got, err, want)
			}
			return nil
		})
	}
	s := startLive(t, corefile("manifests "+filepath.Join(dir, "objects")))
	eventually(http.StatusOK)

	starting, goOn := holdStartup(t)
	reloaded := make(chan error, 1)
	go func() {
		reloaded <- s.reload(corefile(provideUnreachable(t, t.TempDir(), nil)+"\n        startup_timeout 0s") + "a.test:0 {\n    bind 127.0.0.1\n    startupwaits\n}\n")
	}()
	<-starting
	for range 100 {
		if got, err := ready(); err != nil || got != http.StatusOK {
			t.Fatalf("while the new server starts: %d, %v", got, err)
		}
	}
	goOn()
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	eventually(http.StatusServiceUnavailable) // the new server has no data
}

// startupwaits is a plugin that waits in its OnStartup, like kubernetes for its API server, until a test releases it. It comes after all
// others, including clusterset.
func init() {
	plugin.Register("startupwaits", func(c *caddy.Controller) error {
		c.OnStartup(func() error {
			close(startupWaits.starting)
			<-startupWaits.goOn
			return nil
		})
		return nil
	})
	dnsserver.Directives = append(slices.Clone(dnsserver.Directives), "startupwaits")
}

var startupWaits struct{ starting, goOn chan struct{} }

// holdStartup prepares the plugin for one start. starting is closed when the plugin waits, and goOn releases it.
func holdStartup(t *testing.T) (starting <-chan struct{}, goOn func()) {
	startupWaits.starting, startupWaits.goOn = make(chan struct{}), make(chan struct{})
	goOn = sync.OnceFunc(func() { close(startupWaits.goOn) })
	t.Cleanup(goOn)
	return startupWaits.starting, goOn
}

// startup_timeout counts from the start of reading. So clusterset waits after all other plugins, or the waits would add up.
func TestOtherPluginsWaitBeforeWeDo(t *testing.T) {
	lines := recordLog(t)
	starting, goOn := holdStartup(t)
	started := make(chan *liveServer, 1)
	corefile := fmt.Sprintf("clusterset.local:0 {\n    bind 127.0.0.1\n    clusterset {\n        %s\n        startup_timeout 0s\n    }\n    startupwaits\n}\n",
		provideUnreachable(t, t.TempDir(), nil))
	go func() { started <- startLive(t, corefile) }()
	<-starting
	lines.expect(t, "ask for the versions served") // clusterset is already reading
	if lines.has("not synced after") {
		t.Error("our wait is over before another plugin's begins")
	}
	goOn()
	<-started
	lines.expect(t, "not synced after 0s", "SERVFAIL")
}
