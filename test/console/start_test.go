package console

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

const root = "../.."

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }

// chromium returns the path of the browser. Without one the test is skipped, or fails if CLUSTERSET_CHROMIUM is "required".
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

// browser returns a context in which chromedp starts a browser with a tab, and what ends it.
func browser(t testing.TB) (context.Context, func()) {
	t.Helper()
	allocator, stop := chromedp.NewExecAllocator(context.Background(), // a failed test says what it shows
		chromedp.ExecPath(chromium(t)), chromedp.WindowSize(1360, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true),
		// No host name resolves, so that nothing leaves the machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	ctx, cancel := chromedp.NewContext(allocator)
	return ctx, func() { cancel(); stop() }
}

// consoled is a running `clusterset console`.
type consoled struct {
	url string // with the token
	*process.Process
}

// clusterset returns the program.
func clusterset(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if err := fleettest.Build(); err != nil {
		t.Fatal(err)
	}
	return fleettest.Binaries().Command(context.Background(), t.TempDir(), args...)
}

// start starts a console that ends with the test.
func start(t testing.TB, args ...string) *consoled {
	t.Helper()
	chromium(t)
	cmd := clusterset(t, append([]string{"console", "--no-open"}, args...)...)
	var stdout, stderr process.Output
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(&stderr, os.Stderr)
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	c := &consoled{Process: p}
	err = p.Await(t.Context(), kube.Patience, func(context.Context) error {
		line, _, whole := strings.Cut(stdout.String(), "\n")
		at := strings.Index(line, "http://127.0.0.1:")
		if !whole || at < 0 {
			return fmt.Errorf("its first line is %q", line)
		}
		c.url = line[at:]
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return c
}

// theSet starts a console that reads the set that most tests use, and that the pictures show.
func theSet(t testing.TB) *consoled {
	t.Helper()
	return start(t, "--manifests", "testdata/set")
}

// clusters are a hub with its process and two members with their agents, on real API servers. The kubeconfig has the contexts hub,
// beijing and shanghai. Each connects through a link that the test can cut.
type clusters struct {
	*fleettest.Fleet
	links      map[string]*faultproxy.Link
	kubeconfig string
}

// theFleet returns the clusters, which all tests share.
func theFleet(t *testing.T) *clusters {
	t.Helper()
	chromium(t)
	f := &clusters{links: map[string]*faultproxy.Link{}, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	f.Fleet = fleettest.Shared(t, "console", 1,
		fleettest.Spec{Name: "beijing", Zone: "cn-north-1a", Region: "cn-north"}, fleettest.Spec{Name: "shanghai", Zone: "cn-east-1a", Region: "cn-east"})
	all := clientcmdapi.NewConfig()
	for name, plane := range map[string]*kube.ControlPlane{"hub": f.Hub.Plane, "beijing": f.Member("beijing").Plane, "shanghai": f.Member("shanghai").Plane} {
		server, err := url.Parse(plane.URL())
		if err != nil {
			t.Fatal(err)
		}
		if f.links[name], err = faultproxy.NewLink(server.Host, 1); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.links[name].Close)
		one, err := clientcmd.LoadFromFile(plane.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		c := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[c.Cluster], one.AuthInfos[c.AuthInfo]
		all.Clusters[name].Server = "https://" + f.links[name].Addr()
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	if err := clientcmd.WriteToFile(*all, f.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return f
}

// console starts a console that reads the clusters.
func (f *clusters) console(contexts ...string) *consoled {
	args := []string{"--hub-kubeconfig", f.kubeconfig, "--hub-context", "hub", "--kubeconfig", f.kubeconfig}
	for _, c := range contexts {
		args = append(args, "--context", c)
	}
	return start(f.TB, args...)
}

const exportOfWeb = "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web, namespace: live}\n"

// service returns the manifests of the Service live/web with ready endpoints, and of its ServiceExport if it is exported.
func service(t testing.TB, ready int, export bool) string {
	t.Helper()
	manifests, err := os.ReadFile("testdata/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(manifests)
	for i := range ready {
		text += fmt.Sprintf("- {addresses: [10.1.0.%d]}\n", i+1)
	}
	if export {
		text += "---\n" + exportOfWeb
	}
	return text
}
