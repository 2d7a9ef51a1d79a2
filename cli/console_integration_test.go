package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/test/kube"
	testprocess "github.com/clusterset/clusterset/test/process"
)

// consoled is a client with a session at a running `clusterset console`.
type consoled struct {
	*http.Client
	address string
}

var consoleAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`)

// startConsole runs `clusterset console` until the test ends.
func startConsole(t *testing.T, args ...string) consoled {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr testprocess.Output
	done := make(chan int)
	go func() { done <- run(ctx, append([]string{"console", "--no-open"}, args...), &stdout, &stderr) }()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("console: exit code %d, %s", code, stderr.String())
		}
	})
	kube.Eventually(t, func() error {
		if !consoleAddress.MatchString(stdout.String()) {
			return fmt.Errorf("no address is printed: %q, %q", stdout.String(), stderr.String())
		}
		return nil
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := consoled{Client: &http.Client{Jar: jar}}
	first := consoleAddress.FindString(stdout.String())
	c.address, _, _ = strings.Cut(first, "/?")
	if err := c.get(t.Context(), first, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c consoled) get(ctx context.Context, target string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	got, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", target, got.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(got.Body).Decode(into)
}

// sees waits until the console's map is as wanted.
func (c consoled) sees(t *testing.T, wanted func(*console.Map) error) {
	t.Helper()
	kube.Eventually(t, func() error {
		var m console.Map
		if err := c.get(t.Context(), c.address+"/api/map", &m); err != nil {
			return err
		}
		return wanted(&m)
	})
}

// in returns nil if a source is in that state and its error contains the text.
func in(m *console.Map, source string, state console.State, says string) error {
	for _, s := range m.Sources {
		if s.Context == source && s.State == state && strings.Contains(s.Error, says) && !s.Since.IsZero() {
			return nil
		}
	}
	return fmt.Errorf("%s isn't %s with %q: %+v", source, state, says, m.Sources)
}

// contexts writes a kubeconfig with several contexts: hub and beijing for administrators, nobody without
// rights in beijing, and away, where no server listens.
func (s lookedAt) contexts(t *testing.T) string {
	t.Helper()
	nobody, err := s.member.KubeconfigFor("nobody")
	if err != nil {
		t.Fatal(err)
	}
	all := clientcmdapi.NewConfig()
	for name, path := range map[string]string{"hub": s.hub.Kubeconfig(), "beijing": s.member.Kubeconfig(), "nobody": nobody, "away": s.member.Kubeconfig()} {
		one, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		of := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[of.Cluster], one.AuthInfos[of.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.Clusters["away"].Server = "https://127.0.0.1:1"
	path := filepath.Join(t.TempDir(), "contexts")
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func testConsole(t *testing.T, s lookedAt) {
	t.Setenv("KUBECONFIG", s.contexts(t))
	c := startConsole(t, "--hub-context", "hub", "--context", "beijing,nobody,away")
	c.sees(t, func(m *console.Map) error {
		if len(m.Clusters) != 2 || m.Services.Total != 1 || m.Services.Conflicts != 1 {
			return fmt.Errorf("clusters %+v, services %+v", m.Clusters, m.Services)
		}
		return errors.Join(in(m, "hub", console.Live, ""), in(m, "beijing", console.Live, ""),
			in(m, "nobody", console.Refused, "clusterset doctor lists what is needed"), in(m, "away", console.Away, "can't be reached"))
	})
	var svc console.Service
	changes := url.QueryEscape(`[{"drain":["beijing"]}]`)
	if err := c.get(t.Context(), c.address+"/api/service?service=shop/web&changes="+changes, &svc); err != nil || len(svc.Columns) != 2 || len(svc.Conflicts) != 1 {
		t.Errorf("shop/web: %v, %+v", err, svc)
	}

	// The console notices a change by itself.
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = "shanghai"
	drain := func(text string) {
		if err := s.open(t, s.hub).Patch(t.Context(), mc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"drain":`+text+`}}`))); err != nil {
			t.Fatal(err)
		}
	}
	drain("true")
	c.sees(t, func(m *console.Map) error {
		if len(m.Clusters) != 2 || !m.Clusters[1].Drain {
			return fmt.Errorf("%+v", m.Clusters)
		}
		return nil
	})
	drain("null")

	// The wrong cluster instead of the hub.
	startConsole(t, "--hub-context", "beijing").sees(t, func(m *console.Map) error {
		return in(m, "beijing", console.Away, "")
	})
	fails(t, exitUsage, "--hub-kubeconfig, --hub-context or --manifests is required", "console")
	fails(t, exitUsage, "there is no context", "console", "--hub-context", "hub", "--context", "paris")
	fails(t, exitUsage, "--manifests and", "console", "--hub-context", "hub", "--manifests", ".")
}
