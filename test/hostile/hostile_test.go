package hostile

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
)

const (
	thief, worker, reader = "thief", "worker", "reader"

	// maxMemory is how many times what they need with a large honest cluster the processes of others may need at their peak (rule C59 of
	// docs/spec/control-plane.md). It is checked only at length.
	maxMemory = 2
	// maxLate is how late another cluster's changes may arrive (C59). It is checked only at length.
	maxLate = 10 * time.Second

	// pace is how many requests a second the thief makes at length. All clusters of the test share this machine: without a pace, what
	// others notice is its API servers and etcds that get no processor.
	pace = 60

	// quietFor is how long nothing is written once all is imported, longer than anything that waits but for a write budget.
	quietFor = 3 * time.Second
	// patience is for the write budget of a cluster, which is used up for minutes.
	patience = 15 * time.Minute
)

// One stolen credential costs the other members nothing that they would notice.
func TestWhatAStolenCredentialCosts(t *testing.T) {
	f := fleettest.New(t, fleettest.Spec{Name: thief}, fleettest.Spec{Name: worker}, fleettest.Spec{Name: reader})
	f.Hub.Apply(Policies(t)...)
	w := newWitness(t, f)
	f.Member(thief).KillAgent()
	c, err := client.New(f.Member(thief).OnHub(), client.Options{Scheme: fleet.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	a := &Attacker{TB: t, Hub: c, Cluster: thief, Namespace: w.ns, Share: 1 << 18, Turns: 60}
	w.thief = a
	if fleettest.Long {
		a.Share, a.Turns, a.Pace = 600<<20/7, 3000, rate.NewLimiter(pace, 1)
	}
	table := &table{small: w.peaks()}
	for _, s := range inOrder() {
		w.begin()
		a.Attack(s)
		seen := w.end()
		table.add(s, a, seen)
		t.Logf("%s: %d written, another cluster's change took %s at most", s.What, a.Written, seen.late.Round(time.Millisecond))
		w.clean()
	}
	table.print(t)
	table.check(t)
	if path := os.Getenv(tableEnv); path != "" {
		if err := tableSection.Replace(path, fmt.Sprintf("\n%s\n", table)); err != nil {
			t.Error(err)
		}
	}
}

// witness is what others notice: the peaks of their memory, what is written in another member, and how late another cluster's service
// follows.
type witness struct {
	testing.TB
	ns             string
	hub            *fleettest.Hub
	worker, reader *fleettest.Member
	thief          *Attacker

	change  int
	writes  int // when the shape began
	stop    chan struct{}
	stopped chan time.Duration
}

// seen is what a shape did to others.
type seen struct {
	peaks  []int // of the processes, in MiB
	writes int
	late   time.Duration
}

// legitimate is how many services the set has besides the thief's.
const legitimate = 200

func newWitness(t *testing.T, f *fleettest.Fleet) *witness {
	w := &witness{TB: t, ns: f.Namespace("hostile"), hub: f.Hub, worker: f.Member(worker), reader: f.Member(reader)}
	for i := range legitimate {
		name := fmt.Sprintf("web%d", i)
		w.worker.Apply(fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: %[2]s}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %[1]s, name: %[2]s}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %[1]s, name: %[2]s-1, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: ["10.50.0.%[3]d"]}, {addresses: ["10.50.1.%[3]d"]}, {addresses: ["10.50.2.%[3]d"]}]
`, w.ns, name, i+1))
	}
	w.follows()
	return w
}

// follows changes the worker's service, and returns how long the reader took to have the change.
func (w *witness) follows() time.Duration {
	w.change++
	address := fmt.Sprintf("10.51.%d.%d", w.change/250, w.change%250+1)
	began := time.Now()
	patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/endpoints/0/addresses/0", "value": %q}]`, address)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "web0-1"}}
	if err := w.worker.Client.Patch(context.Background(), slice, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		w.Error(err)
		return 0
	}
	of := client.MatchingLabels{api.LabelSourceCluster: worker, api.LabelServiceName: "web0"}
	if err := poll.Within(context.Background(), kube.Patience, func(context.Context) error {
		var imported discoveryv1.EndpointSliceList
		if err := w.reader.List(&imported, client.InNamespace(w.ns), of); err != nil {
			return err
		}
		if !slices.ContainsFunc(imported.Items, func(s discoveryv1.EndpointSlice) bool { return has(&s, address) }) {
			return fmt.Errorf("the reader hasn't got %s yet", address)
		}
		return nil
	}); err != nil {
		w.Error(err)
	}
	return time.Since(began)
}

func has(s *discoveryv1.EndpointSlice, address string) bool {
	for i := range s.Endpoints {
		if s.Endpoints[i].Addresses[0] == address {
			return true
		}
	}
	return false
}

// begin starts to look at what a shape does. At length, API servers and agent start anew. The agent keeps the memory that it had for the shape
// before, and an API server the last minutes of every watch: after a few shapes, three of them need more memory than a machine of 24 GiB has.
func (w *witness) begin() {
	if fleettest.Long {
		for _, c := range []*fleettest.Cluster{&w.hub.Cluster, &w.worker.Cluster, &w.reader.Cluster} {
			c.Plane.StopAPIServer()
			c.StartAPIServer()
		}
		w.reader.RestartAgent()
		w.follows()
	}
	for _, p := range w.processes() {
		resetPeak(w, p.pid)
	}
	w.writes = w.written()
	w.stop, w.stopped = make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var latest time.Duration
		for {
			latest = max(latest, w.follows())
			w.thief.Beat()
			select {
			case <-w.stop:
				w.stopped <- latest
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// end returns what was seen since begin. It first waits until all that the thief wrote is imported, also what waited for its write budget.
func (w *witness) end() seen {
	w.await(func() error {
		late, err := w.reader.Metrics.Sum("clusterset_importer_late_services")
		if err == nil && late > 0 {
			err = fmt.Errorf("changes of %v services wait", late)
		}
		return err
	})
	close(w.stop)
	late := <-w.stopped
	w.quiet()
	late = max(late, w.follows())
	return seen{peaks: w.peaks(), writes: w.written() - w.writes, late: late}
}

// quiet waits until the reader's agent has written nothing for a few seconds.
func (w *witness) quiet() {
	var writes float64
	var since time.Time
	w.await(func() error {
		now, err := w.reader.Metrics.Sum("clusterset_importer_writes_total")
		if err != nil {
			return err
		}
		if now != writes {
			writes, since = now, time.Now()
		}
		if time.Since(since) < quietFor {
			return fmt.Errorf("the reader still imports: %v writes", writes)
		}
		return nil
	})
}

// await waits for what takes as long as the thief's write budgets make it. Meanwhile the thief's heartbeats go on: what goes while a cluster
// is Expired, and a watch is broken, would be kept for a day.
func (w *witness) await(f func() error) {
	var beat time.Time
	if err := poll.Within(context.Background(), patience, func(context.Context) error {
		if time.Since(beat) >= time.Second {
			beat = time.Now()
			w.thief.Beat()
		}
		return f()
	}); err != nil {
		w.Error(err)
	}
}

// clean removes what the thief wrote, so that the next shape finds room. One request deletes as many of tens of thousands of records as
// it can in the time that an API server gives it.
func (w *witness) clean() {
	for _, all := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}} {
		w.await(func() error {
			return w.hub.Client.DeleteAllOf(context.Background(), all, client.InNamespace(api.MemberNamespace(thief)))
		})
	}
	w.uncount()
	// That a record is missing says nothing: what was imported stays as its slices have it. Without these nothing does.
	w.await(func() error {
		of := []client.DeleteAllOfOption{client.InNamespace(w.ns), client.MatchingLabels{api.LabelSourceCluster: thief}}
		if err := w.reader.Client.DeleteAllOf(context.Background(), &discoveryv1.EndpointSlice{}, of...); err != nil {
			return err
		}
		var left discoveryv1.EndpointSliceList
		if err := w.reader.List(&left, client.InNamespace(w.ns), client.MatchingLabels{api.LabelSourceCluster: thief}, client.Limit(1)); err != nil {
			return err
		}
		if len(left.Items) > 0 {
			return fmt.Errorf("the reader still has %s", left.Items[0].Name)
		}
		return nil
	})
}

// uncount tells the hub's quota that the thief's records are gone. The controller manager of a hub does, which this one hasn't. The hub process
// writes the quota, too.
func (w *witness) uncount() {
	w.await(func() error {
		var quotas corev1.ResourceQuotaList
		if err := w.hub.Client.List(context.Background(), &quotas, client.InNamespace(api.MemberNamespace(thief))); err != nil {
			return err
		}
		for i := range quotas.Items {
			used := quotas.Items[i].Status.Used
			for what := range used {
				if strings.HasPrefix(string(what), "count/exported") {
					used[what] = resource.MustParse("0")
				}
			}
			if err := w.hub.Client.Status().Update(context.Background(), &quotas.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
