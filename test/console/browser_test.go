package console

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/clusterset/clusterset/test/ownnet"
)

// chromium returns the path of the browser. Without a browser the test is skipped, or fails if CLUSTERSET_CHROMIUM is "required".
func chromium(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const want = "this needs Chromium: apt-get install --no-install-recommends chromium, or another way to have chromium or google-chrome in PATH"
	if os.Getenv("CLUSTERSET_CHROMIUM") == "required" {
		t.Fatal(want)
	}
	t.Skip(want)
	return ""
}

// shared is the browser that all tests share.
var shared struct {
	sync.Mutex
	started *startedBrowser // nil before the first test
}

type startedBrowser struct {
	ctx  context.Context
	stop func()
}

// browser returns a context in which chromedp opens tabs of the shared browser.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := chromium(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.started != nil {
		return shared.started.ctx
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), // the browser outlives the test
		chromedp.ExecPath(path), chromedp.UserDataDir(workDir+"/browser"), chromedp.WindowSize(1360, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true),
		// No host name resolves, so that nothing leaves the machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	ctx, stop := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		stopAllocator()
		t.Fatalf("start %s: %v", path, err)
	}
	shared.started = &startedBrowser{ctx, func() { stop(); stopAllocator() }}
	return ctx
}

// workDir holds the files that the tests write. It is removed after the run.
var workDir string

func TestMain(m *testing.M) {
	if err := ownnet.Enter(); err != nil { // an API server reads the metrics of a pod
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "console-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(workDir) }()
	defer func() {
		if shared.started != nil {
			shared.started.stop()
		}
		stopFleet()
	}()
	return m.Run()
}
