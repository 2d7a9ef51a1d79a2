package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// watcher asks all reports about a fleet, from the hub's side and the members'.
type watcher struct {
	*fleettest.Fleet
	kubeconfig string // with a context for the hub, and for each member
	console    *http.Client
	at         string // the console's address
}

// observe starts a console that reads the whole fleet.
func observe(t *testing.T, f *fleettest.Fleet) *watcher {
	w := &watcher{Fleet: f, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	all := clientcmdapi.NewConfig()
	add := func(name, path string) {
		one, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[c.Cluster], one.AuthInfos[c.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	add("hub", f.Hub.Plane.Kubeconfig())
	args := []string{"console", "--no-open", "--hub-kubeconfig", w.kubeconfig, "--hub-context", "hub", "--kubeconfig", w.kubeconfig}
	for _, m := range f.Members {
		add(m.Spec.Name, m.Plane.Kubeconfig())
		args = append(args, "--context", m.Spec.Name)
	}
	if err := clientcmd.WriteToFile(*all, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	bin := fleettest.Binaries()
	page, out := process.StartFor(t, bin.Command(context.Background(), filepath.Dir(bin.Clusterset), args...), "the console")
	jar, _ := cookiejar.New(nil) // never fails
	w.console = &http.Client{Jar: jar}
	err := page.Await(t.Context(), kube.Patience, func(ctx context.Context) error {
		_, address, found := strings.Cut(out.String(), "The console is at ")
		if address, _, whole := strings.Cut(address, "\n"); found && whole {
			w.at, _, _ = strings.Cut(address, "/?")
			_, err := w.fetch(ctx, address)
			return err
		}
		return errors.New("it hasn't said its address")
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *watcher) fetch(ctx context.Context, address string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := w.console.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, response.Status)
	}
	return string(text), err
}

// asked returns what a report says: the console, or a command with its arguments.
func (w *watcher) asked(ctx context.Context, report string) (string, error) {
	if report == "console" {
		return w.fetch(ctx, w.at+"/api/problems")
	}
	args := strings.Fields(report)
	for _, flags := range []string{"--", "--hub-"} {
		if slices.Contains(args, flags+"context") {
			args = append(args, flags+"kubeconfig", w.kubeconfig)
		}
	}
	cmd := fleettest.Binaries().Command(ctx, filepath.Dir(fleettest.Binaries().Clusterset), args...)
	out, err := process.CombinedOutput(cmd)
	if len(out) > 0 { // some end with 1 where there is a problem
		return string(out), nil
	}
	return "", err
}

// says returns nil if each report says something, or doesn't, and otherwise what else it says.
func (w *watcher) says(ctx context.Context, word string, want bool, reports ...string) error {
	var errs []error
	for _, report := range reports {
		text, err := w.asked(ctx, report)
		if err == nil && strings.Contains(text, word) != want {
			err = fmt.Errorf("%s: %q is there: %v\n%s", report, word, !want, text)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// No report is green beside a broken set: while a fault lasts, each says so, from the hub's side and the members', and when it is over none does.
// Faults that a unit test of one report shows (TestNoFaultIsGreen) aren't repeated here, but those that people make with the whole at work are.
func TestNoReportIsGreenBesideAFault(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("faults")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	for i, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.%d.14.1", 200+i))))
	}
	some := slice(ns, "solo", "1", "IPv4", port8080, endpoint("10.200.14.2"))
	beijing.Apply(exported(ns, "solo", "clusterIP: None, "+httpPort), some)
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "beijing", "tianjin", "shanghai") })
	w := observe(t, f)
	const hub, here, checked, there, console = "status --hub-context hub", "status --context beijing", "doctor --context beijing", "status --context tianjin", "console"
	services := func(service string) []string { // of one service
		return []string{here, checked, console, "services " + ns + "/" + service + " --context beijing", "services " + ns + "/" + service + " --hub-context hub"}
	}
	cidrs := func(is string) func() {
		return func() {
			f.Hub.Apply(fmt.Sprintf("{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: tianjin}, spec: {cidrs: %s}}", is))
		}
	}
	token := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.MemberServiceAccount}}
	type fault struct {
		name       string
		word       string
		make, undo func()
		reports    []string
	}
	// The faults of a group are made together: it takes most of a minute until some are noticed.
	for _, group := range [][]fault{
		{
			{"networks that leave out what a cluster exports", "OutsideCIDRs", cidrs("[10.9.0.0/16]"), cidrs("[]"), []string{hub, here, checked, there, console}},
			{"and what is left out of a service", "LeftOut", func() {}, func() {}, []string{here, checked, console, "explain " + ns + "/web --context beijing"}},
			{"nothing is behind a name", "NoEndpoints", func() { beijing.Apply(slice(ns, "solo", "1", "IPv4", port8080)) }, func() { beijing.Apply(some) }, services("solo")},
			{"a policy is misspelled", "NotUsed", func() {
				beijing.Apply(strings.Replace(export(ns, "web", ""), "name: web", `name: web, annotations: {clusterset.dev/prefer: "zone regoin"}`, 1))
			}, func() {
				beijing.Apply(strings.Replace(export(ns, "web", ""), "name: web", `name: web, annotations: {clusterset.dev/prefer: zone}`, 1))
			}, []string{
				here, checked, console, "services " + ns + "/web --context beijing", "explain " + ns + "/web --context beijing",
			}},
		},
		{
			{"an agent is stopped", "AgentStopped", shanghai.KillAgent, func() { shanghai.StartAgent() }, []string{"status --context shanghai", "doctor --context shanghai", console}},
			{"a token is revoked", "TokenRefused", func() {
				if err := f.Hub.Client.Delete(context.Background(), token); err != nil {
					t.Fatal(err)
				}
			}, func() {
				if err := beijing.Join(context.Background(), f.Hub, "--rejoin"); err != nil {
					t.Fatal(err)
				}
			}, []string{here, checked, console}},
			{"the hub process is killed", "NoHubProcess", f.Hub.Kill, func() { f.Hub.Restart() }, []string{hub, console, "doctor --context beijing --hub-context hub"}},
		},
	} {
		for _, fault := range group {
			kube.Eventually(t, func() error { return w.says(t.Context(), fault.word, false, fault.reports...) })
		}
		for _, fault := range group {
			fault.make()
		}
		for _, fault := range group {
			t.Run(fault.name, func(t *testing.T) {
				kube.Eventually(t, func() error { return w.says(t.Context(), fault.word, true, fault.reports...) })
			})
		}
		if i, err := tianjin.Imported(ns, "web"); err != nil || !strings.Contains(fmt.Sprint(i.Slices), "10.201.14.1") {
			t.Errorf("tianjin has lost its own endpoint to its own networks: %v %v", i.Slices, err)
		}
		for _, fault := range group {
			fault.undo()
		}
	}
	kube.Eventually(t, func() error { return w.says(t.Context(), "Problems  none", true, hub, here, there) })
}
