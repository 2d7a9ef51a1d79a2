package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
)

// Zones are those that are checked unless others are given.
var Zones = []string{"clusterset.local", "svc.global"}

// Gatherer reads Facts.
type Gatherer struct {
	// Cluster and Hub are how to connect to them. Either may be nil.
	Cluster, Hub *rest.Config
	// ClusterFlags and HubFlags are the flags that chose them, for messages.
	ClusterFlags, HubFlags string
	// DNSServer is a server to query, empty for none.
	DNSServer string
	Zones     []string
	// Rights says whether the account's rights are checked.
	Rights bool
}

// Gather reads the Facts. They include what can't be read.
func (g *Gatherer) Gather(ctx context.Context) *Facts {
	f, c, hub := g.ask(ctx)
	if c == nil {
		return f
	}
	facts, err := view.Fetch(ctx, c, hub)
	if err != nil {
		f.SetErr = err
		return f
	}
	f.See(&facts, view.Build(facts))
	f.Credentials = credentials(ctx, c, facts.Local.Agent)
	return f
}

// Ask reads the Facts except those that See adds, and the agent's credentials.
func (g *Gatherer) Ask(ctx context.Context) *Facts {
	f, _, _ := g.ask(ctx)
	return f
}

// ask also returns the cluster and the hub, nil if they can't be reached.
func (g *Gatherer) ask(ctx context.Context) (f *Facts, c, hub *objects.Cluster) {
	f = &Facts{Now: time.Now(), Zones: g.Zones, DNSServer: g.DNSServer}
	if g.Cluster != nil {
		f.Cluster, c = g.server(ctx, g.Cluster, "cluster", g.ClusterFlags)
	}
	if g.Hub != nil {
		f.Hub, hub = g.server(ctx, g.Hub, "hub", g.HubFlags)
	}
	if c == nil {
		return f, nil, hub
	}
	var services corev1.ServiceList
	if err := c.List(ctx, &services); err == nil {
		f.Services = services.Items
	}
	f.Workloads, f.WorkloadsErr = workloads(ctx, c)
	f.findDNS(ctx, c)
	if g.DNSServer != "" {
		f.Replies = clusterdns.Ask(ctx, "udp", g.DNSServer, g.Zones)
	}
	return f, c, hub
}

// server asks a server about itself. It returns no Cluster if the server doesn't answer.
func (g *Gatherer) server(ctx context.Context, config *rest.Config, what, flags string) (*Server, *objects.Cluster) {
	s := &Server{What: what, Address: config.Host}
	c, err := objects.Open(config, what, flags)
	if err != nil {
		s.Err = err
		return s, nil
	}
	disco, err := s.ask(ctx, config)
	if err != nil {
		s.Err = c.Words(err)
		return s, nil
	}
	s.CRDs, s.CRDsErr = definitions(ctx, disco, config, what)
	if g.Rights {
		s.Rights = slices.Clone(wanted[what])
		s.RightsErr = ask(ctx, c, s.Rights)
	}
	return s, c
}

// dated notes the date of replies.
type dated struct {
	http.RoundTripper
	date *string
}

func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		*d.date = reply.Header.Get("Date")
	}
	return reply, err
}

// ask reads the version, which any account may, and the time in the reply's header.
func (s *Server) ask(ctx context.Context, config *rest.Config) (*discovery.DiscoveryClient, error) {
	var date string
	config = rest.CopyConfig(config)
	config.Wrap(func(t http.RoundTripper) http.RoundTripper { return dated{t, &date} })
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	content, err := disco.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var about apiversion.Info
	if err := json.Unmarshal(content, &about); err != nil {
		return nil, err
	}
	s.Version = about.GitVersion
	if at, err := http.ParseTime(date); err == nil {
		s.Skew, s.Timed = at.Sub(began.Add(time.Since(began)/2)), true
	}
	return disco, nil
}

// See adds what the cluster's own objects and the hub say of the set, and the Report of that.
func (f *Facts) See(facts *view.Facts, set view.Report) {
	f.Set = set
	f.Pods, f.PodsErr = facts.Local.Pods, facts.Local.PodsErr
	for i := range facts.Local.Members {
		if m := &facts.Local.Members[i]; m.Name == facts.Local.Cluster {
			f.Member = m
		}
	}
}

// credentials reads when the agent's token expires, and asks the hub whether it accepts it: with a token that it doesn't know, an API server refuses
// also what anyone may.
func credentials(ctx context.Context, c *objects.Cluster, agent *view.Settings) *Credentials {
	key := client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubSecret}
	if agent != nil && agent.HubSecret != "" {
		key.Namespace, key.Name, _ = strings.Cut(agent.HubSecret, "/")
	}
	var secret corev1.Secret
	if err := c.Get(ctx, key, &secret); err != nil {
		return &Credentials{Err: err}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[api.HubSecretKey])
	if err != nil {
		return &Credentials{Err: err}
	}
	lifetime, _ := connect.Lifetime(config.BearerToken)
	config.Timeout = 5 * time.Second
	_, err = (&Server{}).ask(ctx, config)
	return &Credentials{
		Key: key.String(), Server: config.Host, Expires: connect.Expires(config.BearerToken), Lifetime: lifetime, Refused: apierrors.IsUnauthorized(err),
	}
}
