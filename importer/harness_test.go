package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// world is a hub and a member, with a test client for each.
type world struct {
	t           *testing.T
	hub, member *kube.ControlPlane
	hubClient   client.Client
	client      client.Client
}

// newWorld starts the API servers. The hub gets the member "beijing", whose importer the tests run, and two more
// members.
func newWorld(t *testing.T, memberOptions ...kube.Option) *world {
	t.Helper()
	servicesGauge.Reset() // the previous test's values
	extendedGauge.Reset()
	planes := kube.StartAll(t, nil, memberOptions)
	w := &world{t: t, hub: planes[0], member: planes[1]}
	w.hub.Apply(t, crds.All()...)
	w.hub.Apply(t, readFile(t, "testdata/rbac-hub.yaml"))
	w.member.Apply(t, crds.All()...)
	w.member.Apply(t, readFile(t, "testdata/rbac-member.yaml"))
	w.hubClient, w.client = newClient(t, w.hub.Config()), newClient(t, w.member.Config())
	for _, cluster := range []string{"beijing", "baoding", "shanghai"} {
		w.onHub(namespaceOf(cluster), memberOf(cluster))
	}
	return w
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: testScheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (w *world) onHub(manifests ...string) { w.hub.Apply(w.t, join(manifests)) }

// withdraw withdraws an export in the same way as its exporter.
func (w *world) withdraw(manifests string) {
	w.t.Helper()
	for _, o := range records.Decode(w.t, manifests) {
		svc, export := o.(*clustersetv1alpha1.ExportedService)
		if !export {
			continue
		}
		if err := w.hubClient.Get(context.Background(), client.ObjectKeyFromObject(o), svc); err != nil {
			w.t.Fatal(err)
		}
		if err := w.hubClient.Update(context.Background(), withdrawn(svc)); err != nil {
			w.t.Fatal(err)
		}
	}
	_, endpoints, _ := strings.Cut(manifests, "---")
	w.hub.Delete(w.t, []byte(endpoints))
}

func (w *world) here(manifests ...string) { w.member.Apply(w.t, join(manifests)) }

func join(manifests []string) []byte { return []byte(strings.Join(manifests, "\n---\n")) }

func namespaceOf(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: clusterset-member-%s}}", name)
}

func namespace(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}

func memberOf(name string) string {
	return fmt.Sprintf("{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: %[1]s, annotations: {clusterset.dev/joined: '2020-01-01T00:00:00Z'}}, spec: {zone: %[1]s-1, region: cn}}", name)
}

// traffic records requests to an API server.
type traffic struct {
	next http.RoundTripper

	mu     sync.Mutex
	bytes  int64    // received in responses about records and GlobalServices
	writes []string // except conflicts (409), which any client may get
}

func (c *traffic) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err == nil && (strings.Contains(r.URL.Path, "/exported") || strings.Contains(r.URL.Path, "/globalservices")) {
		response.Body = &counted{response.Body, c}
	}
	wrote := r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !r.URL.Query().Has("dryRun")
	if wrote && (err != nil || response.StatusCode != http.StatusConflict) {
		c.mu.Lock()
		c.writes = append(c.writes, r.Method+" "+r.URL.Path)
		c.mu.Unlock()
	}
	return response, err
}

// counted is a response body that counts its bytes.
type counted struct {
	io.ReadCloser
	traffic *traffic
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.traffic.mu.Lock()
	b.traffic.bytes += int64(n)
	b.traffic.mu.Unlock()
	return n, err
}

func (c *traffic) received() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *traffic) written() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.writes...)
}

// running is a running importer.
type running struct {
	stop          func()
	local         *traffic
	known         *store.Store
	reconcilesNow float64 // the number of reconciles when it started
}

// start runs an importer with exactly the permissions in testdata/rbac-*.yaml, until the test ends or stop is called.
func (w *world) start(options Options) *running {
	w.t.Helper()
	if options.Cluster == "" {
		options.Cluster = "beijing"
	}
	run := &running{local: &traffic{}, reconcilesNow: reconciles(w.t)}
	log := logr.Discard() // not t's log: client-go's goroutines may log after the test has ended, which would panic
	ctrl.SetLogger(log)
	localConfig := through(w.member.ConfigFor("importer"), run.local)
	mgr, err := ctrl.NewManager(localConfig, ctrl.Options{
		Scheme: testScheme, Logger: log, Cache: cache.Options{DefaultTransform: desired.Strip},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	hub, err := connect.NewHub(w.hub.ConfigFor("importer"), StoreOptions(mgr, options))
	if err != nil {
		w.t.Fatal(err)
	}
	options.Nodes = nodes.New()
	watch := manager.RunnableFunc(func(ctx context.Context) error { return options.Nodes.Watch(ctx, mgr) })
	if err := errors.Join(mgr.Add(manager.RunnableFunc(hub.Store.Start)), mgr.Add(watch)); err != nil {
		w.t.Fatal(err)
	}
	if err := Setup(mgr, hub, options); err != nil {
		w.t.Fatal(err)
	}
	run.known = hub.Store
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			w.t.Errorf("manager: %v", err)
		}
	}()
	run.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(run.stop)
	return run
}

func through(cfg *rest.Config, c *traffic) *rest.Config {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
	return cfg
}

// reconciles returns the number of reconciles by all importers of this process.
func reconciles(t *testing.T) float64 {
	return metric(t, "controller_runtime_reconcile_total", "controller", "importer")
}

// metric returns the sum of a metric's series that have the label.
func metric(t *testing.T, name, label, value string) float64 {
	t.Helper()
	registerMetrics()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if has(m, label, value) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func has(m *dto.Metric, label, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == label && l.GetValue() == value {
			return true
		}
	}
	return label == ""
}

var testScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}()
