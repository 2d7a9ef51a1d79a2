package clusterset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

const (
	defaultTTL            = 5
	maxTTL                = 3600
	defaultStartupTimeout = 5 * time.Second
	// minSnapshotAge is longer than the time between two writes of a snapshot file.
	minSnapshotAge = 5 * time.Minute
)

// options is a parsed clusterset stanza.
type options struct {
	zones          zones
	kubeconfig     string
	context        string
	manifests      string
	config         *rest.Config // nil if manifests is set
	location       topology.Location
	policy         topology.Policy
	namespaces     []string
	maxAnswers     int
	ttl            uint32
	startupTimeout time.Duration
	lameduck       time.Duration
	snapshot       snapshotOptions
	express        bool
	fall           fall.F
}

// sourceKey identifies the source that a stanza reads. Stanzas with the same key share it.
func (o *options) sourceKey() string {
	if o.manifests != "" {
		return "manifests\x00" + o.manifests
	}
	return "kubernetes\x00" + o.kubeconfig + "\x00" + o.context
}

// parse reads a server block's only clusterset stanza. Its errors name the line.
func parse(c *caddy.Controller) (*options, error) {
	o := &options{ttl: defaultTTL, express: true, startupTimeout: defaultStartupTimeout}
	p := parser{Controller: c, options: o, seen: map[string]bool{}}
	c.Next()
	args := c.RemainingArgs()
	if err := checkZoneNames(args); err != nil {
		return nil, c.Errf("%v", err)
	}
	zoneNames := plugin.OriginsFromArgsOrServerBlock(args, c.ServerBlockKeys)
	if err := p.zones(zoneNames, len(args) > 0); err != nil {
		return nil, c.Errf("%v", err)
	}
	for c.NextBlock() {
		if err := p.option(); err != nil {
			return nil, c.Errf("%v", err)
		}
	}
	if c.Next() {
		return nil, c.Err("a server block takes one clusterset stanza; give it several zones instead")
	}
	if err := p.finish(); err != nil {
		return nil, c.Errf("%v", err)
	}
	return o, nil
}

type parser struct {
	*caddy.Controller
	*options
	seen map[string]bool
}

// zones adds the zones of the stanza, which names them itself or has those of its server block.
func (p *parser) zones(names []string, named bool) error {
	if len(names) == 0 {
		return errors.New("no zone: want clusterset [ZONES...], such as clusterset clusterset.local svc.global")
	}
	for _, name := range names {
		name = strings.ToLower(plugin.Name(name).Normalize())
		if slices.ContainsFunc(p.options.zones, func(z *zone) bool { return z.name == name }) {
			continue
		}
		if name == "." && !named {
			return errors.New("zone .: clusterset would answer NXDOMAIN for every other name; name its zones, such as clusterset clusterset.local svc.global")
		}
		if err := checkZone(name); err != nil {
			return err
		}
		d := index.MCS
		if name == public || name == svcGlobal {
			d = index.Global
		}
		p.options.zones = append(p.options.zones, newZone(name, d))
	}
	return nil
}

// checkZone returns an error if the zone is a reverse zone, or its own names are too long for a packet or would be spelled differently in one.
func checkZone(name string) error {
	if name == "arpa." || dns.IsSubDomain("in-addr.arpa.", name) || dns.IsSubDomain("ip6.arpa.", name) {
		return fmt.Errorf("zone %s: clusterset has no PTR records, and would hide another plugin's; name its zones, such as clusterset clusterset.local svc.global", name)
	}
	longest := "dns-version." + strings.TrimPrefix(name, ".")
	buf := make([]byte, 255)
	n, err := dns.PackDomainName(longest, buf, 0, nil, false)
	if err != nil {
		return fmt.Errorf("zone %s: too long, or not a DNS name", name)
	}
	if received, _, err := dns.UnpackDomainName(buf[:n], 0); err != nil || received != longest {
		return fmt.Errorf("zone %s: queries would spell it %s", name, strings.TrimPrefix(received, "dns-version."))
	}
	return nil
}

// option reads one option of the stanza.
func (p *parser) option() error {
	name, args := p.Val(), p.RemainingArgs()
	parse, known := map[string]func([]string) error{
		"kubeconfig":      p.kubeconfigOption,
		"manifests":       p.manifestsOption,
		"location":        p.locationOption,
		"prefer":          p.preferOption,
		"boundary":        p.boundaryOption,
		"dialect":         p.dialectOption,
		"namespaces":      p.namespacesOption,
		"max_answers":     p.maxAnswersOption,
		"ttl":             p.ttlOption,
		"startup_timeout": p.durationOption(&p.startupTimeout),
		"lameduck":        p.durationOption(&p.lameduck),
		"snapshot":        p.snapshotOption,
		"express":         p.expressOption,
		"fallthrough":     p.fallthroughOption,
	}[name]
	if !known {
		return fmt.Errorf("unknown option %q: want kubeconfig, manifests, location, prefer, boundary, dialect, namespaces, max_answers, ttl, startup_timeout, lameduck, snapshot, express or fallthrough", name)
	}
	if p.seen[name] && name != "dialect" {
		return fmt.Errorf("%s is set twice", name)
	}
	p.seen[name] = true
	if err := parse(args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (p *parser) kubeconfigOption(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("want FILE [CONTEXT]")
	}
	p.kubeconfig = p.path(args[0])
	if len(args) == 2 {
		p.context = args[1]
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: p.kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: p.context},
	).ClientConfig()
	if err != nil {
		return err
	}
	p.config = config
	return nil
}

func (p *parser) manifestsOption(args []string) error {
	if len(args) != 1 {
		return errors.New("want one directory")
	}
	p.manifests = p.path(args[0])
	info, err := os.Stat(p.manifests)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s isn't a directory", p.manifests)
	}
	return nil
}

// path makes a path absolute, relative to the root plugin's directory as CoreDNS's plugins do.
func (p *parser) path(s string) string {
	if root := dnsserver.GetConfig(p.Controller).Root; root != "" && !filepath.IsAbs(s) {
		return filepath.Join(root, s)
	}
	return filepath.Clean(s)
}

func (p *parser) locationOption(args []string) error {
	if len(args) < 1 || len(args) > 3 {
		return errors.New("want CLUSTER [ZONE [REGION]], with - for an unknown value")
	}
	fields := []*string{&p.location.Cluster, &p.location.Zone, &p.location.Region}
	for i, arg := range args {
		if arg == "-" {
			arg = ""
		}
		*fields[i] = arg
	}
	p.location.Cluster = strings.ToLower(p.location.Cluster)
	if p.location.Cluster != "" {
		if err := api.CheckClusterName(p.location.Cluster); err != nil {
			return fmt.Errorf("cluster %q %w", p.location.Cluster, err)
		}
	}
	for _, s := range []string{p.location.Zone, p.location.Region} {
		if err := api.CheckLocation(s); err != nil {
			return fmt.Errorf("%q %w", s, err)
		}
	}
	return nil
}

func (p *parser) preferOption(args []string) error {
	prefer, err := topology.ParsePrefer(strings.Join(args, " "))
	p.policy.Prefer = prefer
	return err
}

func (p *parser) boundaryOption(args []string) error {
	if len(args) != 1 {
		return errors.New("want cluster, zone or region")
	}
	t, err := topology.ParseTier(args[0])
	p.policy.Boundary = t
	return err
}

func (p *parser) dialectOption(args []string) error {
	if len(args) == 0 {
		return errors.New("want global or mcs [ZONES...]")
	}
	d, err := index.ParseDialect(args[0])
	if err != nil {
		return err
	}
	if len(args) == 1 {
		for _, z := range p.options.zones {
			z.dialect = d
		}
		return nil
	}
	for _, arg := range args[1:] {
		name := strings.ToLower(plugin.Name(arg).Normalize())
		i := slices.IndexFunc(p.options.zones, func(z *zone) bool { return z.name == name })
		if i < 0 {
			return fmt.Errorf("%s isn't a zone of this stanza", name)
		}
		p.options.zones[i].dialect = d
	}
	return nil
}

func (p *parser) namespacesOption(args []string) error {
	if len(args) == 0 {
		return errors.New("want one or more namespaces")
	}
	for _, ns := range args {
		if err := api.CheckLabel(ns); err != nil {
			return fmt.Errorf("namespace %q %w", ns, err)
		}
	}
	p.namespaces = args
	return nil
}

func (p *parser) maxAnswersOption(args []string) (err error) {
	p.maxAnswers, err = number(args, 1, 65535)
	return err
}

func (p *parser) ttlOption(args []string) error {
	n, err := number(args, 0, maxTTL)
	p.ttl = uint32(n) //nolint:gosec // checked by number
	return err
}

func number(args []string, low, high int) (int, error) {
	if len(args) == 1 {
		if n, err := strconv.Atoi(args[0]); err == nil && n >= low && n <= high {
			return n, nil
		}
	}
	return 0, fmt.Errorf("want one number from %d to %d, not %q", low, high, strings.Join(args, " "))
}

// durationOption reads an option whose one argument is a duration.
func (*parser) durationOption(option *time.Duration) func([]string) error {
	return func(args []string) error {
		if len(args) == 1 {
			if d, err := time.ParseDuration(args[0]); err == nil && d >= 0 {
				*option = d
				return nil
			}
		}
		return fmt.Errorf("want a duration such as 5s, not %q", strings.Join(args, " "))
	}
}

func (p *parser) snapshotOption(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("want FILE [MAX_AGE]")
	}
	p.snapshot.path = p.path(args[0])
	if info, err := os.Stat(p.snapshot.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s isn't a regular file", p.snapshot.path)
	}
	if len(args) == 2 {
		d, err := time.ParseDuration(args[1])
		if err != nil || d < minSnapshotAge {
			return fmt.Errorf("want a maximum age of at least %v, such as 24h, not %q", minSnapshotAge, args[1])
		}
		p.snapshot.maxAge = d
	}
	return nil
}

func (p *parser) expressOption(args []string) error {
	if len(args) != 1 || args[0] != "auto" && args[0] != "off" {
		return fmt.Errorf("want auto or off, not %q", strings.Join(args, " "))
	}
	p.express = args[0] == "auto"
	return nil
}

func (p *parser) fallthroughOption(args []string) error {
	p.fall.SetZonesFromArgs(args)
	return checkZoneNames(args)
}

// finish checks rules that involve several options, and finds the source if none is named.
func (p *parser) finish() error {
	p.options.zones.sort()
	if p.policy.Boundary != topology.Any && !p.location.Has(p.policy.Boundary) {
		return fmt.Errorf("boundary %s: the %s of this server is unknown, so no endpoint would be within it; set it with location CLUSTER ZONE REGION",
			p.policy.Boundary, p.policy.Boundary)
	}
	switch {
	case p.manifests != "" && p.kubeconfig != "":
		return errors.New("kubeconfig and manifests are mutually exclusive: objects come from one source")
	case p.manifests != "" && p.snapshot.path != "":
		return errors.New("snapshot and manifests are mutually exclusive: manifests are files that exist when the server starts")
	case p.manifests != "" || p.kubeconfig != "":
		return nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("no source: not in a cluster (%w); set kubeconfig FILE or manifests DIR", err)
	}
	p.config = config
	return nil
}

// checkZoneNames returns an error for an argument that CoreDNS would drop silently.
func checkZoneNames(args []string) error {
	for _, arg := range args {
		if len(plugin.Host(arg).NormalizeExact()) == 0 {
			return fmt.Errorf("%q isn't a zone", arg)
		}
	}
	return nil
}
