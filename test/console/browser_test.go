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

// chromiumPath is the path of the browser, empty if there is none.
func chromiumPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// chromium skips a test without a browser, or lets it fail if CLUSTERSET_CHROMIUM is "required".
func chromium(t testing.TB) {
	t.Helper()
	const want = "this needs Chromium: apt-get install --no-install-recommends chromium, or another way to have chromium or google-chrome in PATH"
	switch {
	case testing.Short():
		t.Skip("starts a browser")
	case chromiumPath() == "" && os.Getenv("CLUSTERSET_CHROMIUM") == "required":
		t.Fatal(want)
	case chromiumPath() == "":
		t.Skip(want)
	}
}

// stopBrowser ends the browser that all tests share, nil before the first test.
var stopBrowser func()

// started starts it, and returns a context in which chromedp opens its tabs.
var started = sync.OnceValues(func() (context.Context, error) {
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), // the browser outlives the test
		chromedp.ExecPath(chromiumPath()), chromedp.UserDataDir(workDir+"/browser"), chromedp.WindowSize(1360, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true),
		// No host name resolves, so that nothing leaves the machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	ctx, stop := chromedp.NewContext(allocator)
	stopBrowser = func() { stop(); stopAllocator() }
	return ctx, chromedp.Do(ctx)
})

// browser returns a context in which chromedp opens tabs of the shared browser.
func browser(t testing.TB) context.Context {
	t.Helper()
	chromium(t)
	ctx, err := started()
	if err != nil {
		t.Fatalf("start %s: %v", chromiumPath(), err)
	}
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
		if stopBrowser != nil {
			stopBrowser()
		}
		stopFleet()
	}()
	return m.Run()
}
