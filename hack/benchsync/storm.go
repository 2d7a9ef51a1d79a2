package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/test/kube"
)

// storms is a hub whose members all come back at once. Their exporters run in this process, each with credentials, a connection, caches and
// a transport of its own, as in an agent. In place of their own API servers they share one, far's, in which each sees a namespace.
type storms struct {
	*bench
	addresses
	agents  []*exporting
	current map[client.ObjectKey]string // address of each service
	sent    traffic
	quiet   received
}

// answeredOf is how many of the clusters near imports: their changes must be answered by its CoreDNS. Those of the others must be on the hub.
const answeredOf = 10

// strikes is how many services an agent writes to a hub that fails before the others wait for their turns, and how many it writes at a time.
const strikes = 8

// What a hub that is back may get and take: this many times the requests of a quiet start, and this long until all is well.
const (
	stormFactor = 2
	stormLimit  = 30 * time.Second
)

// exporting is the exporting half of an agent.
type exporting struct {
	cluster, namespace string
	hub                *rest.Config
	stop               func() error
}

// storm measures how many requests the hub gets, and how soon all is well again, after it was away, was restored from a backup, and was full.
func (b *bench) storm(ctx context.Context) error {
	s := &storms{bench: b, current: map[client.ObjectKey]string{}}
	if err := s.setUp(ctx); err != nil {
		return err
	}
	defer s.stopAgents()
	for _, step := range []func(context.Context) error{s.starts, s.away, s.restored, s.full} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := pause(ctx, s.sizes.idle); err != nil { // what a step leaves to do doesn't count for the next
			return err
		}
	}
	return nil
}

func (s *storms) setUp(ctx context.Context) error {
	s.far = s.newMember("far")
	s.members = append(s.members, s.far)
	if err := s.far.Launch(ctx, kube.WithServiceCIDRs("10.98.0.0/16")); err != nil {
		return err
	}
	if err := s.far.Plane.ApplyContext(ctx, kube.MCSCRDs()...); err != nil {
		return err
	}
	s.say("making %d services in each of %d clusters", s.sizes.services, s.sizes.clusters)
	var imported []string
	for i := range s.sizes.clusters {
		a := &exporting{cluster: other(i), namespace: fmt.Sprintf("of-%d", i)}
		s.agents = append(s.agents, a)
		for n := range s.sizes.services {
			s.current[a.key(n)] = s.next()
		}
		if i < answeredOf {
			imported = append(imported, a.namespace)
			if err := s.near.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
				return err
			}
		}
	}
	if err := inParallel(ctx, s.agents, s.make); err != nil {
		return err
	}
	s.near.AgentFlags = []string{"--import-namespaces", strings.Join(imported, ",")}
	return s.near.restartAgent(ctx)
}

func (a *exporting) key(n int) client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: fmt.Sprintf("svc-%d", n)}
}

// make joins a cluster, and makes what it exports.
func (s *storms) make(ctx context.Context, _ int, a *exporting) error {
	kubeconfig, err := join.Join(ctx, join.At(s.hub.Plane.Config()), join.Options{Cluster: a.cluster, Spec: clustersetv1alpha1.MemberClusterSpec{Zone: a.cluster}})
	if err != nil {
		return err
	}
	if a.hub, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		return err
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}}
	for n := range s.sizes.services {
		key := a.key(n)
		objects = append(objects, slice(key.Namespace, key.Name, s.current[key]), exportOf(key.Namespace, key.Name), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}},
		})
	}
	for _, o := range objects {
		if err := s.far.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// start starts a cluster's exporter as the command line does. It reads only its own namespace's records from the hub: 250 caches of everything
// wouldn't fit into one process. The number of requests is the same.
func (s *storms) start(ctx context.Context, a *exporting) error {
	scheme := connect.NewScheme()
	if err := mcs.AddToScheme(scheme); err != nil {
		return err
	}
	mgr, err := manager.New(s.far.Plane.Config(), manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{a.namespace: {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Namespace{}: {Field: fields.OneTermEqualSelector("metadata.name", a.namespace)}},
		},
	})
	if err != nil {
		return err
	}
	config := rest.CopyConfig(a.hub)
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // so that each cluster has its own connections
	config.Wrap(s.sent.through)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return ownRecords{api.MemberNamespace(a.cluster), next}
	})
	hub, err := connect.NewHub(config, store.Options{Cluster: a.cluster})
	if err != nil {
		return err
	}
	if _, err = exporter.Setup(mgr, hub, exporter.Options{Cluster: a.cluster, Version: "bench", HeartbeatInterval: beatEvery}); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(hub.Store.Start)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.stop = func() error { cancel(); return <-ended }
	return nil
}

// ownRecords makes requests for the records of all namespaces those for one.
type ownRecords struct {
	namespace string
	next      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o ownRecords) RoundTrip(r *http.Request) (*http.Response, error) {
	before, kind, all := strings.Cut(r.URL.Path, "/v1alpha1/exported")
	if all && !strings.Contains(kind, "/") {
		r = r.Clone(r.Context())
		r.URL.Path = before + "/v1alpha1/namespaces/" + o.namespace + "/exported" + kind
	}
	return o.next.RoundTrip(r)
}

func (s *storms) stopAgents() {
	group := errgroup.Group{}
	for _, a := range s.agents {
		if a.stop != nil {
			group.Go(a.stop)
		}
		a.stop = nil
	}
	_ = group.Wait() // some end while the hub is away
}

// starts measures all agents' start, first on an empty hub, and then on one that has everything.
func (s *storms) starts(ctx context.Context) error {
	for _, what := range []string{"agents start on an empty hub", "agents start, nothing to write (quiet start)"} {
		s.stopAgents()
		s.say("%s", what)
		was, began, group := s.sent.now(), time.Now(), errgroup.Group{}
		for _, a := range s.agents {
			group.Go(func() error { return s.start(ctx, a) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if _, err := s.well(ctx, what, was, began); err != nil {
			return err
		}
		s.quiet = s.sent.now().minus(was)
	}
	return nil
}

// away stops the hub for a while, and takes a backup of it. Changes are made meanwhile.
func (s *storms) away(ctx context.Context) error {
	s.say("the hub is away for %s", s.sizes.time)
	s.hub.Plane.StopAPIServer()
	s.hub.Plane.StopEtcd()
	if err := os.CopyFS(s.backup(), os.DirFS(s.data())); err != nil {
		return err
	}
	if err := errors.Join(s.change(ctx), pause(ctx, s.sizes.time)); err != nil {
		return err
	}
	return s.returns(ctx, fmt.Sprintf("the hub is back after %s, with %d changes in each cluster", s.sizes.time, s.sizes.rolled))
}

func (s *storms) data() string   { return filepath.Join(s.hub.Dir, "etcd") }
func (s *storms) backup() string { return filepath.Join(s.dir, "backup") }

// restored restores the hub from the backup, which lacks the last changes.
func (s *storms) restored(ctx context.Context) error {
	s.say("the hub is restored from a backup")
	s.hub.Plane.StopAPIServer()
	s.hub.Plane.StopEtcd()
	if err := errors.Join(os.RemoveAll(s.data()), os.Rename(s.backup(), s.data())); err != nil {
		return err
	}
	return s.returns(ctx, fmt.Sprintf("the hub is restored, without the last %d changes of each cluster", s.sizes.rolled))
}

// returns starts the hub again.
func (s *storms) returns(ctx context.Context, what string) error {
	was := s.sent.now()
	if err := s.hub.Plane.StartEtcd(ctx); err != nil {
		return err
	}
	if err := s.hub.Plane.StartAPIServer(ctx); err != nil {
		return err
	}
	took, err := s.well(ctx, what, was, time.Now())
	if err == nil && took > stormLimit {
		err = fmt.Errorf("%s: all is well after %s, want %s", what, round(took), stormLimit)
	}
	// Twice a quiet start, besides the changes that have to be written. How many are refused depends on how long an API server takes to start.
	sent, most := s.sent.now().minus(was).taken(), stormFactor*s.quiet.requests+len(s.agents)*min(s.sizes.rolled, s.sizes.services)
	if err == nil && sent > most {
		err = fmt.Errorf("%s: %d requests that the hub didn't refuse, want at most %d", what, sent, most)
	}
	return err
}

// full makes the hub's etcd refuse all writes for a while, as when its quota is used up. Changes are made meanwhile.
func (s *storms) full(ctx context.Context) error {
	s.say("the hub is full for %s", s.sizes.time)
	was, began := s.sent.now(), time.Now()
	if err := s.alarm(ctx, "ACTIVATE"); err != nil {
		return err
	}
	if err := errors.Join(s.change(ctx), pause(ctx, s.sizes.time)); err != nil {
		return err
	}
	while, lasted := s.sent.now().minus(was).requests, time.Since(began)
	// For each agent: eight changes, and what its workers have under way then; one for each worker after 1 s, 3 s, 7 s and then each 8 s; and for each
	// heartbeat and its early retries two requests and a list of each kind at times.
	turns := 2 + 3 + int(lasted/(8*time.Second))
	if most := len(s.agents) * (turns*strikes + 3*(int(lasted/beatEvery)+5)); while > most {
		return fmt.Errorf("%d requests while the hub was full for %s, want at most %d", while, round(lasted), most)
	}
	if err := s.alarm(ctx, "DEACTIVATE"); err != nil {
		return err
	}
	what := fmt.Sprintf("the hub has room again after %s, with %d changes in each cluster (%d requests meanwhile)", s.sizes.time, s.sizes.rolled, while)
	took, err := s.well(ctx, what, s.sent.now(), time.Now())
	if err == nil && took > stormLimit {
		err = fmt.Errorf("all is well %s after the hub has room again, want %s", round(took), stormLimit)
	}
	return err
}

// alarm raises or ends etcd's alarm about a full disk.
func (s *storms) alarm(ctx context.Context, action string) error {
	content, err := s.hub.Plane.CallEtcd(ctx, "/v3/maintenance/status", struct{}{})
	if err != nil {
		return err
	}
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
	}
	if err := json.Unmarshal(content, &status); err != nil {
		return err
	}
	_, err = s.hub.Plane.CallEtcd(ctx, "/v3/maintenance/alarm", map[string]any{"action": action, "memberID": status.Header.Member, "alarm": "NOSPACE"})
	return err
}

// change gives services of every cluster new addresses.
func (s *storms) change(ctx context.Context) error {
	var changed []client.ObjectKey
	for _, a := range s.agents {
		for n := range min(s.sizes.rolled, s.sizes.services) {
			changed = append(changed, a.key(n))
			s.current[a.key(n)] = s.next()
		}
	}
	return inParallel(ctx, changed, func(ctx context.Context, _ int, key client.ObjectKey) error {
		patch := fmt.Appendf(nil, `{"endpoints": [{"addresses": [%q]}]}`, s.current[key])
		return s.far.Client.Patch(ctx, slice(key.Namespace, key.Name, ""), client.RawPatch(types.MergePatchType, patch))
	})
}

// well waits until every cluster has renewed its Lease since a time and is Ready, and every change is answered. It adds a row with the requests
// since was, and how long that took.
func (s *storms) well(ctx context.Context, what string, was received, since time.Time) (time.Duration, error) {
	err := s.await(ctx, s.near.Agent, "all is well", func() (bool, error) {
		err := s.unwell(ctx, since)
		return err == nil, err
	})
	took, sent := time.Since(since), s.sent.now().minus(was)
	s.result(what, "%d requests, %d refused; all Ready and answered after %s; load average %s", sent.requests, sent.refused, round(took), loadAverage())
	return took, err
}

// unwell says what isn't well yet.
func (s *storms) unwell(ctx context.Context, since time.Time) error {
	var leases coordinationv1.LeaseList
	var members clustersetv1alpha1.MemberClusterList
	var records clustersetv1alpha1.ExportedEndpointsList
	if err := errors.Join(s.hub.Client.List(ctx, &leases, client.HasLabels{api.LabelCluster}), s.hub.Client.List(ctx, &members), s.hub.Client.List(ctx, &records)); err != nil {
		return err
	}
	silent, unready, wrong := len(s.agents)+1, len(s.agents)+1, len(s.current) // near is one of them
	for i := range leases.Items {
		if at := leases.Items[i].Spec.RenewTime; at != nil && at.After(since) {
			silent--
		}
	}
	for i := range members.Items {
		if members.Items[i].Status.Phase == clustersetv1alpha1.MemberReady {
			unready--
		}
	}
	for i := range records.Items {
		r := &records.Items[i].Spec
		if s.current[client.ObjectKey{Namespace: r.ServiceNamespace, Name: r.ServiceName}] == r.Endpoints[0].Addresses[0] {
			wrong--
		}
	}
	if silent+unready+wrong > 0 {
		return fmt.Errorf("%d clusters are silent, %d not Ready, %d records wrong", silent, unready, wrong)
	}
	for _, a := range s.agents[:min(answeredOf, len(s.agents))] {
		for n := range s.sizes.services {
			key := a.key(n)
			answer, err := s.dig(key.Name + "." + key.Namespace + ".svc.clusterset.local.")
			if err != nil || answer != s.current[key] {
				return fmt.Errorf("%s is answered with %q, %v", key, answer, err) //nolint:errorlint // it may be nil
			}
		}
	}
	return nil
}
