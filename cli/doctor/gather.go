package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/connect"
)

// What is checked unless something else is given: the zones, and the ConfigMaps of the cluster DNS and NodeLocal DNSCache.
var (
	Zones        = []string{"clusterset.local", ourZone}
	ClusterDNS   = client.ObjectKey{Namespace: "kube-system", Name: "coredns"}
	NodeLocalDNS = client.ObjectKey{Namespace: "kube-system", Name: "node-local-dns"}
)

// Gatherer reads Facts.
type Gatherer struct {
	// Cluster and Hub are how to connect to them. Either may be nil.
	Cluster, Hub *rest.Config
	// ClusterFlags and HubFlags are the flags that chose them, for messages.
	ClusterFlags, HubFlags string
	// Roles are the parts whose rights are checked. As is the account in the cluster whose rights these are, empty for our own.
	Roles []string
	As    string
	// MemberNamespace is the member's namespace on the hub, if the account there is a member's.
	MemberNamespace string
	// ClusterDNS and NodeLocalDNS are the names of the ConfigMaps, Secret that of the agent's credentials, empty if it isn't to be read.
	ClusterDNS, NodeLocalDNS, Secret client.ObjectKey
	DNSServer                        string
	Zones                            []string
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
	facts.Hub = g.read(facts.Hub)
	f.See(&facts, view.Build(facts))
	return f
}

// read returns what was read of the hub, nil if a member's account may not: with communities it may not list all records. checkRights says whether
// it has the rights that it needs.
func (g *Gatherer) read(hub *view.HubFacts) *view.HubFacts {
	if hub != nil && g.MemberNamespace != "" && apierrors.IsForbidden(hub.Err) {
		return nil
	}
	return hub
}

// Ask reads the Facts except those that See adds.
func (g *Gatherer) Ask(ctx context.Context) *Facts {
	f, _, _ := g.ask(ctx)
	return f
}

// ask also returns the cluster and the hub, nil if they can't be reached.
func (g *Gatherer) ask(ctx context.Context) (f *Facts, c, hub *objects.Cluster) {
	f = &Facts{Now: time.Now(), Zones: g.Zones, DNSServer: g.DNSServer}
	if g.Cluster != nil {
		c = g.askCluster(ctx, f)
	}
	if g.Hub != nil {
		if f.Hub, hub = g.server(ctx, g.Hub, "hub", g.HubFlags); f.Hub.Err != nil {
			hub = nil // checkServers says so
		}
	}
	if g.DNSServer != "" {
		for _, zone := range g.Zones {
			f.Replies = append(f.Replies, query(ctx, g.DNSServer, zone))
		}
	}
	return f, c, hub
}

// askCluster returns nil if the cluster can't be reached.
func (g *Gatherer) askCluster(ctx context.Context, f *Facts) (c *objects.Cluster) {
	f.Cluster, c = g.server(ctx, g.Cluster, "cluster", g.ClusterFlags)
	f.ClusterDNS, f.NodeLocalDNS = ConfigMap{Key: g.ClusterDNS.String()}, ConfigMap{Key: g.NodeLocalDNS.String()}
	if f.Cluster.Err != nil {
		f.ClusterDNS.Err, f.NodeLocalDNS.Err = errUnreached, errUnreached
		return nil
	}
	f.Services, f.ServicesErr = services(ctx, c)
	f.readClusterDNS(ctx, c, g.ClusterDNS)
	f.NodeLocalDNS.read(ctx, c, g.NodeLocalDNS)
	if g.Secret.Name != "" {
		f.Credentials = credentials(ctx, c, g.Secret)
	}
	return c
}

var errUnreached = errors.New("the cluster can't be reached")

func (g *Gatherer) server(ctx context.Context, config *rest.Config, what, flags string) (*Server, *objects.Cluster) {
	s := &Server{What: what, Address: config.Host}
	c, err := objects.Open(config, what, flags)
	if err != nil {
		s.Err = err
		return s, nil
	}
	if err := s.ask(ctx, config); err != nil {
		s.Err = c.Words(err)
		return s, c
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		s.Err = c.Words(err)
		return s, c
	}
	s.CRDs = definitions(ctx, disco, config, what)
	var read []string
	if what == "hub" && len(g.Roles) > 0 {
		read = readBy(ctx, c, g.MemberNamespace)
	}
	for _, role := range g.Roles {
		s.Rights = append(s.Rights, wanted(role, what, g.MemberNamespace, read)...)
	}
	asker := c
	if g.As != "" && what == "cluster" {
		other := rest.CopyConfig(config)
		other.Impersonate.UserName = g.As // only for this check: everything else is read with our own rights
		if asker, err = objects.Open(other, what, flags); err != nil {
			s.RightsErr = err
			return s, c
		}
	}
	s.RightsErr = ask(ctx, asker, s.Rights)
	return s, c
}

// readBy returns the namespaces on the hub that a member's account reads records in, its own first, or nil if that is all of them, as far as
// MemberClusters may be read.
func readBy(ctx context.Context, hub *objects.Cluster, memberNamespace string) (namespaces []string) {
	members, err := hub.MemberClusters(ctx)
	if err != nil {
		return nil
	}
	own, _ := api.ClusterOfNamespace(memberNamespace)
	for _, cluster := range communities.Read(members, own) {
		namespaces = append(namespaces, api.MemberNamespace(cluster))
	}
	return namespaces
}

// ask reads the version, which any account may, and the time in the reply's header.
func (s *Server) ask(ctx context.Context, config *rest.Config) error {
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return err
	}
	// Twice: the first request opens the connection, whose time would count as the clock's uncertainty.
	for range 2 {
		began := time.Now()
		reply, err := h.Do(request)
		if err != nil {
			return err
		}
		took := time.Since(began)
		var version struct {
			GitVersion string `json:"gitVersion"`
		}
		err = json.NewDecoder(reply.Body).Decode(&version)
		_ = reply.Body.Close()
		switch {
		case reply.StatusCode == http.StatusUnauthorized:
			return apierrors.NewUnauthorized("no access")
		case err != nil:
			return err
		}
		s.Version = version.GitVersion
		if date, err := http.ParseTime(reply.Header.Get("Date")); err == nil {
			// The header omits fractions of a second.
			s.Skew = date.Add(time.Second / 2).Sub(began.Add(took / 2))
			s.Uncertain, s.Timed = time.Second/2+took/2, true
		}
	}
	return nil
}

// readClusterDNS also reads the workloads, which say whose ConfigMap is in use.
func (f *Facts) readClusterDNS(ctx context.Context, c *objects.Cluster, asked client.ObjectKey) {
	f.Workloads, f.WorkloadsErr = workloads(ctx, c)
	inUse := f.configMapInUse(ctx, c, asked)
	f.ClusterDNS.Key = inUse.String()
	f.ClusterDNS.read(ctx, c, inUse)
}

func (m *ConfigMap) read(ctx context.Context, c *objects.Cluster, key client.ObjectKey) {
	var o corev1.ConfigMap
	switch err := c.Get(ctx, key, &o); {
	case apierrors.IsNotFound(err):
	case err != nil:
		m.Err = err
	default:
		m.Found, m.Data = true, o.Data
		m.custom(ctx, c, key)
	}
}

// custom adds the server blocks of the additional ConfigMap that k3s, AKS and others import.
func (m *ConfigMap) custom(ctx context.Context, c *objects.Cluster, key client.ObjectKey) {
	var o corev1.ConfigMap
	key.Name += "-custom"
	if !importsFiles(m.Data["Corefile"]) || c.Get(ctx, key, &o) != nil {
		return
	}
	for name, blocks := range o.Data {
		if strings.HasSuffix(name, ".server") {
			m.Data["Corefile"] += "\n" + blocks
		}
	}
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
func credentials(ctx context.Context, c *objects.Cluster, key client.ObjectKey) *Credentials {
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
	refused := apierrors.IsUnauthorized((&Server{}).ask(ctx, config))
	return &Credentials{Key: key.String(), Server: config.Host, Expires: connect.Expires(config.BearerToken), Lifetime: lifetime, Refused: refused}
}

// query queries a server for the version record of a zone. A Corefile may still have the zone global, which contains
// svc.global, without a version record for it.
func query(ctx context.Context, server, zone string) Reply {
	r := version(ctx, server, zone)
	if zone == ourZone && r.NotFound {
		if whole := version(ctx, server, publicZone); whole.Err == nil {
			r = Reply{Zone: zone, Parent: publicZone, Texts: whole.Texts}
		}
	}
	return r
}

func version(ctx context.Context, server, zone string) Reply {
	r := Reply{Zone: zone}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	r.Texts, r.Err = resolver.LookupTXT(ctx, "dns-version."+zone+".")
	var dns *net.DNSError
	if errors.As(r.Err, &dns) {
		r.NotFound, r.Timeout = dns.IsNotFound, dns.IsTimeout || strings.Contains(dns.Err, "connection refused")
	}
	return r
}
