package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// communities measures the cost of communities for the hub and for a member. The other clusters are simulated: they write their records and
// heartbeats with an agent's calls, and watch the hub with an agent's transport and rights.
func (b *bench) communities(ctx context.Context) error {
	w := newWorld(b.sizes, b.hub.Client)
	b.near.Agent.Kill()
	b.near.DNS.Kill()
	b.near.AgentFlags = []string{"--heartbeat-interval", beatEvery.String()}
	b.say("filling the hub: %d clusters export %d services of %d endpoints each", w.clusters-1, w.sizes.services, w.endpoints)
	if err := w.fill(ctx, b); err != nil {
		return err
	}
	for _, size := range w.sizes.communities {
		b.say("clusters in communities of %d (0: in none)", size)
		// Restart the processes, so that their memory can be compared.
		b.hub.Plane.StopAPIServer()
		if err := b.hub.Plane.StartAPIServer(ctx); err != nil {
			return err
		}
		b.hub.Process.Kill()
		if err := b.hub.Process.Start(ctx); err != nil {
			return err
		}
		c := &community{bench: b, world: w, on: true, size: size, what: fmt.Sprintf("communities of %d", size)}
		if size == 0 {
			c.on, c.size, c.what = false, w.clusters, "no communities"
		}
		if err := w.beating(ctx, c.measure); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
	}
	return nil
}

// community is one run. The i'th cluster is in the community i/size. Cluster 0 is near.
type community struct {
	*bench
	world       *world
	on          bool // whether MemberClusters name communities
	size        int
	what        string
	got, played traffic // by near's agent, and by all simulated clusters together
}

// name returns the i'th cluster's name.
func (c *community) name(i int) string {
	if i == 0 {
		return c.near.Name
	}
	return other(i - 1)
}

func (c *community) result(what, format string, args ...any) {
	c.row(c.what+": "+what, "", "", "", fmt.Sprintf(format, args...))
}

func (c *community) measure(ctx context.Context) error {
	heard := func() (bool, error) { return c.world.ready(ctx, c.near.Name) }
	if err := c.await(ctx, c.hub.Process, "the hub has heard all clusters", heard); err != nil {
		return err
	}
	if err := c.setUp(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, before := c.servers(c.hub.Name)
	if err := c.play(ctx); err != nil {
		return err
	}
	untap, err := c.tap(c.near, &c.got)
	if err != nil {
		return err
	}
	defer untap()
	defer c.near.Agent.Kill()
	if err := c.first(ctx); err != nil {
		return err
	}
	was, used := c.got.now(), cpuOf(c.hub.Process.PID())
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(c.world.idle):
	}
	c.result(fmt.Sprintf("near receives in %s without changes", c.world.idle), "%s", c.got.now().minus(was))
	_, after := c.servers(c.hub.Name)
	process, _ := memoryOf(c.hub.Process.PID())
	c.result("resident then", "the hub's API server and etcd %d MiB (%d MiB before the watches), the hub process %d MiB; its processor time meanwhile %s",
		after, before, process, round(cpuOf(c.hub.Process.PID())-used))
	if err := c.change(ctx, 1, c.size-1, c.changes); err != nil {
		return err
	}
	if c.size == c.world.clusters {
		if !c.on {
			return nil
		}
	} else if err := c.change(ctx, c.world.clusters-1, c.size, 0); err != nil {
		return err
	}
	return c.takeOut(ctx)
}

// put sets the communities of a cluster.
func (c *community) put(ctx context.Context, cluster string, communities ...string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := c.hub.Client.Get(ctx, client.ObjectKey{Name: cluster}, mc); err != nil {
			return err
		}
		mc.Spec.Communities = communities
		return c.hub.Client.Update(ctx, mc)
	})
}

// setUp removes all clusters from their communities, and then puts each into its community of this run.
func (c *community) setUp(ctx context.Context) error {
	for i := range c.world.clusters {
		if err := c.put(ctx, c.name(i)); err != nil {
			return err
		}
	}
	if err := c.await(ctx, c.hub.Process, "there are no communities", func() (bool, error) { return c.enforced(ctx, 0, 0) }); err != nil || !c.on {
		return err
	}
	from, used, began := c.hub.audit.size(), cpuOf(c.hub.Process.PID()), time.Now()
	for i := range c.world.clusters {
		if err := c.put(ctx, c.name(i), fmt.Sprint("community-", i/c.size)); err != nil {
			return err
		}
	}
	enforced := func() (bool, error) { return c.enforced(ctx, c.world.clusters, c.world.clusters*c.size) }
	if err := c.await(ctx, c.hub.Process, "communities are enforced", enforced); err != nil {
		return err
	}
	took := time.Since(began)
	n, _, what, err := c.hub.audit.writes(from, hubProcess)
	if err != nil {
		return err
	}
	c.result("set up", "%s; %d writes of the hub process (%s), its processor time %s", round(took), n, what, round(cpuOf(c.hub.Process.PID())-used))
	list, stored, err := c.bindings(ctx)
	c.result("RoleBindings", "%d, of %d subjects each, %d bytes in all", len(list), c.size, stored)
	return err
}

// bindings returns the RoleBindings made for communities, and their total size in protobuf, the format in etcd.
func (c *community) bindings(ctx context.Context) (ours []rbacv1.RoleBinding, stored int, err error) {
	var list rbacv1.RoleBindingList
	if err := c.hub.Client.List(ctx, &list); err != nil {
		return nil, 0, err
	}
	for i := range list.Items {
		if list.Items[i].Name == api.PeersBinding {
			ours, stored = append(ours, list.Items[i]), stored+list.Items[i].Size()
		}
	}
	return ours, stored, nil
}

// enforced reports whether the hub has that many RoleBindings for communities, with that many subjects in total, and as many MemberClusters
// with the condition CommunitiesEnforced.
func (c *community) enforced(ctx context.Context, bindings, subjects int) (bool, error) {
	list, _, err := c.bindings(ctx)
	if err != nil {
		return false, err
	}
	for i := range list {
		subjects -= len(list[i].Subjects)
	}
	var members clustersetv1alpha1.MemberClusterList
	if err := c.hub.Client.List(ctx, &members); err != nil {
		return false, err
	}
	said := 0
	for i := range members.Items {
		if meta.IsStatusConditionTrue(members.Items[i].Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced) {
			said++
		}
	}
	return len(list) == bindings && subjects == 0 && said == bindings, nil
}

// play opens the watches of all simulated clusters, and returns when they have received all records.
func (c *community) play(ctx context.Context) error {
	open, events := 0, 0
	for i := 1; i < c.world.clusters; i++ {
		peers := []string{c.name(i)}
		for n := i / c.size * c.size; n < (i/c.size+1)*c.size; n++ {
			if n != i {
				peers = append(peers, c.name(n))
			}
			if n != 0 {
				events += 2 * c.world.sizes.services
			}
		}
		if !c.on {
			peers = nil
		}
		open += c.watches()
		if err := c.watchAs(ctx, c.name(i), peers, &c.played); err != nil {
			return err
		}
	}
	began := time.Now()
	received := func() (bool, error) {
		is := c.played.now()
		return is.open == open && is.events == events, fmt.Errorf("%d of %d watches, %d of %d records", is.open, open, is.events, events)
	}
	if err := c.await(ctx, c.hub.Process, "the simulated clusters have read everything", received); err != nil {
		return err
	}
	c.result("watches on the hub", "%d of the %d simulated members, which received in %s %s", open, c.world.clusters-1, round(time.Since(began)), c.played.now())
	return nil
}

// watches returns how many watches a member should have on the hub.
func (c *community) watches() int {
	if !c.on {
		return 3
	}
	return 1 + 2*c.size
}

// first deletes what near has imported and measures how its agent imports everything.
func (c *community) first(ctx context.Context) error {
	for _, o := range []client.Object{&mcsv1beta1.ServiceImport{}, &discoveryv1.EndpointSlice{}, &fabedgev1alpha1.GlobalService{}, &corev1.Service{}} {
		if err := c.near.Client.DeleteAllOf(ctx, o, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	if err := c.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := c.importedAll(ctx, (c.size-1)*c.world.sizes.services, c.what+": first import"); err != nil {
		return err
	}
	is := c.got.now()
	c.result("near's agent", "%d watches; it received %s", is.open, is)
	if is.open != c.watches() {
		return fmt.Errorf("near holds %d watches on the hub, want %d", is.open, c.watches())
	}
	return nil
}

// change changes a slice of the i'th cluster, one endpoint at a time. Every change must reach that many readers among the simulated
// clusters. Near must receive want events in total.
func (c *community) change(ctx context.Context, i, readers, want int) error {
	e := c.world.slices[i-1]
	got, played, used := c.got.now(), c.played.now(), c.usage()
	for range c.changes {
		if _, err := c.world.replace(ctx, e, false); err != nil {
			return err
		}
	}
	received := func() (bool, error) {
		return c.played.now().events-played.events == readers*c.changes && c.got.now().events-got.events >= want, nil
	}
	if err := c.await(ctx, c.near.Agent, "everybody has received the changes", received); err != nil {
		return err
	}
	hub, near, all := (c.usage().hub-used.hub)/time.Duration(c.changes), c.got.now().minus(got), c.played.now().minus(played)
	who := "a peer of near"
	if want == 0 {
		who = "a cluster that isn't a peer of near"
	}
	c.result("an endpoint changes in "+who, "near receives %.1f events of %d bytes, all others %d events of %d bytes; processor time of the hub's API server and etcd %s; load average %s",
		float64(near.events)/float64(c.changes), near.records/c.changes, all.events/c.changes, all.records/c.changes, hub.Round(10*time.Microsecond), loadAverage())
	if near.events != want {
		return fmt.Errorf("near received %d events for %d changes in %s, want %d", near.events, c.changes, who, want)
	}
	return nil
}

// takeOut moves a peer of near into a community of its own.
func (c *community) takeOut(ctx context.Context) error {
	from, got, used, began := c.hub.audit.size(), c.got.now(), cpuOf(c.hub.Process.PID()), time.Now()
	if err := c.put(ctx, c.name(1), "alone"); err != nil {
		return err
	}
	err := c.await(ctx, c.near.Agent, "near has dropped a peer", func() (bool, error) {
		m, err := c.near.Metrics.Samples(ctx)
		return c.got.now().open == c.watches()-2 && m.Sum("clusterset_importer_services", "state", "imported") == float64((c.size-2)*c.world.sizes.services) && idle(m), err
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	subjects := c.world.clusters*c.size - 2*(c.size-1)
	err = c.await(ctx, c.hub.Process, "no other cluster may read it", func() (bool, error) { return c.enforced(ctx, c.world.clusters, subjects) })
	if err != nil {
		return err
	}
	n, _, what, err := c.hub.audit.writes(from, hubProcess)
	c.result("a peer of near is taken out", "%d writes of the hub process (%s), its processor time %s; near dropped it after %s and received %s",
		n, what, round(cpuOf(c.hub.Process.PID())-used), round(took), c.got.now().minus(got))
	return err
}
