package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/test/faultproxy"
)

// communities measures the cost of communities for the hub and for a member. The other clusters are simulated: they write their records and
// heartbeats with an agent's calls, and watch the hub with an agent's rights.
func (b *bench) communities(ctx context.Context) error {
	w := b.manyClusters()
	b.near.Agent.Kill()
	b.near.DNS.Kill()
	b.near.AgentFlags = []string{"--heartbeat-interval", beatEvery.String()}
	if err := w.fill(ctx, b); err != nil {
		return err
	}
	for _, size := range b.sizes.communities {
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
		c := &community{bench: b, world: w, on: true, size: size, watches: 1 + 2*size, what: fmt.Sprintf("communities of %d: ", size)}
		if size == 0 {
			c.on, c.size, c.watches, c.what = false, b.sizes.clusters, 3, "no communities: "
		}
		if err := w.beating(ctx, c.measure); err != nil {
			return fmt.Errorf("%s%w", c.what, err)
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
	watches     int // that a member should have on the hub
	what        string
	got, played traffic // by near's agent, and by all simulated clusters together
}

// name returns the i'th cluster's name.
func (c *community) name(i int) string {
	if i == 0 {
		return c.near.Name
	}
	return c.world.clusters[i-1]
}

func (c *community) measure(ctx context.Context) error {
	if err := c.heard(ctx, c.world); err != nil {
		return err
	}
	if c.on {
		if err := c.setUp(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.play(ctx); err != nil {
		return err
	}
	untap, err := c.tap()
	if err != nil {
		return err
	}
	defer untap()
	defer c.near.Agent.Kill()
	if err := c.first(ctx); err != nil {
		return err
	}
	_, resident := c.servers(c.hub.Name)
	c.result(c.what+"resident then", "the hub's API server and etcd %d MiB", resident)
	return c.changes(ctx)
}

// setUp puts each cluster into its community of this run, and waits until the hub has the rights for that.
func (c *community) setUp(ctx context.Context) error {
	for i := range c.sizes.clusters {
		mc := &clustersetv1alpha1.MemberCluster{}
		mc.Name = c.name(i)
		patch := fmt.Appendf(nil, `{"spec": {"communities": ["community-%d"]}}`, i/c.size)
		if err := c.hub.Client.Patch(ctx, mc, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	return c.await(ctx, c.hub.Process, "communities are enforced", func() (bool, error) {
		var bindings rbacv1.RoleBindingList
		var members clustersetv1alpha1.MemberClusterList
		if err := errors.Join(c.hub.Client.List(ctx, &bindings), c.hub.Client.List(ctx, &members)); err != nil {
			return false, err
		}
		subjects, said := 0, 0
		for i := range bindings.Items {
			if bindings.Items[i].Name == api.PeersBinding {
				subjects += len(bindings.Items[i].Subjects)
			}
		}
		for i := range members.Items {
			if meta.IsStatusConditionTrue(members.Items[i].Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced) {
				said++
			}
		}
		return subjects == c.sizes.clusters*c.size && said == c.sizes.clusters, fmt.Errorf("%d subjects, %d enforced", subjects, said)
	})
}

// play reads the hub for each simulated cluster as its agent does, with its account, until ctx ends. It returns when all have read everything.
func (c *community) play(ctx context.Context) error {
	var stores []*store.Store
	for _, cluster := range c.world.clusters {
		config := c.hub.Plane.Config()
		in := "system:serviceaccounts:" + api.MemberNamespace(cluster)
		config.Impersonate = rest.ImpersonationConfig{UserName: agentOnHub(cluster), Groups: []string{"system:serviceaccounts", in, "system:authenticated"}}
		config.Dial = (&net.Dialer{}).DialContext // so that each cluster has its own connections
		config.Wrap(c.played.through)
		hub, err := connect.NewHub(config, store.Options{Cluster: cluster})
		if err != nil {
			return err
		}
		stores = append(stores, hub.Store)
		go func() { _ = hub.Store.Start(ctx) }()
	}
	return c.await(ctx, c.hub.Process, "the simulated clusters have read everything", func() (bool, error) {
		for i, s := range stores {
			if !s.HasSynced() {
				return false, fmt.Errorf("%s hasn't", c.world.clusters[i])
			}
		}
		open, want := c.played.now().open, c.watches*len(stores)
		return open == want, fmt.Errorf("%d of %d watches", open, want)
	})
}

// first deletes what near has imported and measures what its agent receives when it starts.
func (c *community) first(ctx context.Context) error {
	for _, o := range []client.Object{&mcsv1beta1.ServiceImport{}, &discoveryv1.EndpointSlice{}, &fabedgev1alpha1.GlobalService{}, &corev1.Service{}} {
		if err := c.near.Client.DeleteAllOf(ctx, o, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	if err := c.near.restartAgent(ctx); err != nil {
		return err
	}
	if err := c.importedAll(ctx, (c.size-1)*c.sizes.services, c.what+"first import"); err != nil {
		return err
	}
	is := c.got.now()
	c.result(c.what+"near's agent", "%d watches; it received %s", is.open, is)
	if is.open != c.watches {
		return fmt.Errorf("near holds %d watches on the hub, want %d", is.open, c.watches)
	}
	return nil
}

// changes changes a slice of a peer of near, one endpoint at a time. Every change must reach that cluster and its peers, and no others.
func (c *community) changes(ctx context.Context) error {
	got, played, n := c.got.now(), c.played.now(), c.sizes.changes
	for range n {
		if _, err := c.world.replace(ctx, c.world.slices[0], false); err != nil {
			return err
		}
	}
	if err := c.await(ctx, c.near.Agent, "everybody has received the changes", func() (bool, error) {
		near, others := c.got.now().minus(got).events, c.played.now().minus(played).events
		return near == n && others == (c.size-1)*n, fmt.Errorf("near received %d events of %d changes, the others %d", near, n, others)
	}); err != nil {
		return err
	}
	near, others := c.got.now().minus(got), c.played.now().minus(played)
	c.result(c.what+"an endpoint changes in a peer of near", "near receives %d bytes, all members %d bytes", near.records/n, (near.records+others.records)/n)
	return nil
}

// tap puts a counting proxy between near's agent and the hub. It takes effect when the agent is next started.
func (c *community) tap() (remove func(), err error) {
	pki := filepath.Join(c.hub.Dir, "pki", "apiserver")
	certificate, err := tls.LoadX509KeyPair(pki+".crt", pki+".key")
	if err != nil {
		return nil, err
	}
	hub := rest.AnonymousClientConfig(c.hub.Plane.Config())
	hub.Wrap(c.got.through)
	proxy, err := faultproxy.NewAPI(hub, &certificate)
	if err != nil {
		return nil, err
	}
	proxy.Edit(func(r *http.Request) { r.Header.Del("Accept-Encoding") }) // so that the transport decompresses what is counted
	config, err := clientcmd.LoadFromFile(c.near.HubKubeconfig)
	if err != nil {
		return proxy.Close, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = proxy.URL()
	}
	return proxy.Close, clientcmd.WriteToFile(*config, c.near.HubKubeconfig)
}
