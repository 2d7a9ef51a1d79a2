package explain_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/clusterset/clusterset/cli/explain"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// The plugin's golden corpus records a server's answers. The explanations must match them exactly.

// stanza is a clusterset stanza of a case's Corefile, with the options that affect addresses.
type stanza struct {
	zones    []string
	dialects map[string]index.Dialect
	from     topology.Location
	policy   topology.Policy
	// unknown means that it has an option that explain doesn't know.
	unknown bool
}

type corpusCase struct {
	name    string
	located []manifests.Located
	facts   *explain.Facts
	stanzas []*stanza
	queries string
	// others means that something besides the objects affects the answers: another plugin, variables, a choice of files, an API server that is away.
	others bool
}

func readCorpus(t *testing.T) []*corpusCase {
	t.Helper()
	files, err := filepath.Glob("../../plugin/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var cases []*corpusCase
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := &corpusCase{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
		c.others = slices.Contains([]string{"plugins", "next-plugin", "unreachable", "environment", "manifest-files", "root-zone"}, c.name)
		dir := t.TempDir()
		for _, f := range txtar.Parse(data).Files {
			switch {
			case f.Name == "Corefile":
				c.stanzas = readStanzas(t, string(f.Data))
			case f.Name == "queries":
				c.queries = string(f.Data)
			case f.Name == "objects.yaml" || strings.HasPrefix(f.Name, "objects/"):
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Name)), f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		located, notes, err := manifests.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		c.located, c.facts = located, explain.FromManifests(located, notes)
		cases = append(cases, c)
	}
	return cases
}

// readStanzas parses only the syntax that the Corefiles of the corpus use.
func readStanzas(t *testing.T, corefile string) []*stanza {
	t.Helper()
	var all []*stanza
	var keys []string
	var s *stanza
	for line := range strings.Lines(corefile) {
		fields := strings.Fields(line)
		open := len(fields) > 0 && fields[len(fields)-1] == "{"
		if open {
			fields = fields[:len(fields)-1]
		}
		switch {
		case len(fields) == 0:
		case !strings.HasPrefix(line, " ") && open:
			keys = nil
			for _, f := range fields {
				f = strings.TrimPrefix(strings.TrimPrefix(f, "dns://"), "tls://")
				keys = append(keys, strings.TrimSuffix(strings.TrimSuffix(f, ":0"), "."))
			}
		case fields[0] == "clusterset":
			s = &stanza{zones: fields[1:], dialects: map[string]index.Dialect{}}
			if len(s.zones) == 0 {
				s.zones = keys
			}
			for i, z := range s.zones {
				s.zones[i] = strings.ToLower(strings.TrimSuffix(z, "."))
			}
			for _, z := range s.zones {
				s.dialects[z] = index.MCS
				if z == "global" || z == "svc.global" {
					s.dialects[z] = index.Global
				}
			}
			all = append(all, s)
		case s != nil:
			s.option(t, fields)
		}
	}
	return all
}

func (s *stanza) option(t *testing.T, fields []string) {
	tier := func(word string) topology.Tier {
		tier, err := topology.ParseTier(word)
		if err != nil {
			t.Fatal(err)
		}
		return tier
	}
	switch fields[0] {
	case "location":
		for i, to := range []*string{&s.from.Cluster, &s.from.Zone, &s.from.Region} {
			if i+1 < len(fields) && fields[i+1] != "-" {
				*to = strings.Trim(fields[i+1], `"`)
			}
		}
		s.from.Cluster = strings.ToLower(s.from.Cluster)
	case "prefer":
		s.policy.Prefer = []topology.Tier{}
		for _, f := range fields[1:] {
			s.policy.Prefer = append(s.policy.Prefer, tier(f))
		}
	case "boundary":
		s.policy.Boundary = tier(fields[1])
	case "namespaces", "max_answers":
		s.unknown = true
	case "dialect":
		zones := fields[2:]
		if len(zones) == 0 {
			zones = s.zones
		}
		for _, z := range zones {
			d, err := index.ParseDialect(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			s.dialects[z] = d
		}
	}
}

// zoneOf returns the stanza and the zone that answer a name.
func (c *corpusCase) zoneOf(name string) (in *stanza, zone string) {
	for _, s := range c.stanzas {
		for _, z := range s.zones {
			if name != z && !strings.HasSuffix(name, "."+z) && z != "" || in != nil && len(z) <= len(zone) {
				continue
			}
			in, zone = s, z
		}
	}
	return in, zone
}

// reply is the corpus's reply to a query for addresses.
type reply struct {
	rcode string
	addrs []netip.Addr
}

func parseReply(t *testing.T, text string) (r reply) {
	t.Helper()
	section := ""
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case r.rcode == "":
			r.rcode = fields[0]
		case strings.HasPrefix(line, ";"):
			section = fields[0]
		case section == ";answer" && (fields[3] == "A" || fields[3] == "AAAA"):
			r.addrs = append(r.addrs, netip.MustParseAddr(fields[4]))
		}
	}
	return r
}

// TestExplainAgreesWithTheGoldenCorpus explains every name that the corpus queries for addresses, for the stanza that answers it. The
// explanation must have the result and the addresses of the recorded reply.
func TestExplainAgreesWithTheGoldenCorpus(t *testing.T) {
	asked, answered := 0, 0
	for _, c := range readCorpus(t) {
		if c.others {
			continue
		}
		for _, block := range strings.Split(c.queries, "\n\n") {
			at := strings.Index("\n"+block, "\ndig ")
			if at < 0 {
				continue
			}
			line, rest, _ := strings.Cut(block[at:], "\n")
			dig := strings.Fields(line)[1:]
			if dig[0] != "A" && dig[0] != "AAAA" || strings.Contains(line, "+class") || strings.Contains(line, "+opcode") || strings.Contains(line, "+count") || strings.Contains(rest, " tc") || strings.Contains(dig[1], `\`) {
				continue // explain takes names as people write them
			}
			asked++
			want := parseReply(t, rest)
			if len(want.addrs) > 0 {
				answered++
			}
			if err := c.agree(dig[0], strings.ToLower(strings.TrimSuffix(dig[1], ".")), want); err != nil {
				t.Errorf("%s: %s: %v", c.name, line, err)
			}
		}
	}
	if asked < 300 || answered < 100 {
		t.Errorf("only %d names were asked for, %d of them with addresses: does this test still read the corpus?", asked, answered)
	}
	t.Logf("%d questions, %d answered with addresses", asked, answered)
}

func (c *corpusCase) agree(qtype, name string, want reply) error {
	s, zone := c.zoneOf(name)
	if s == nil || s.unknown || strings.HasPrefix(name, "ns.dns.") || name == "ns.dns" {
		return nil // a name of another plugin, or the server's own
	}
	// People don't write names in the root zone, and outside of svc.global global has others' names.
	if zone == "" || name == "ns."+zone || zone == "global" && !strings.HasSuffix(name, ".svc.global") {
		return nil
	}
	origin := strings.TrimSuffix(strings.TrimPrefix(zone+".", "svc."), ".") // the part after svc in service names
	q := explain.Query{From: s.from, Policy: s.policy}
	var err error
	if q.Name, err = explain.ParseName(strings.TrimSuffix(strings.TrimSuffix(name, zone), ".") + "." + zone + "."); err != nil {
		if len(want.addrs) > 0 {
			return err
		}
		return nil // not a service's name: an apex, a namespace or an invalid name
	}
	if q.Name.Zone != origin {
		if len(want.addrs) > 0 {
			return fmt.Errorf("read as a name of zone %q, not %q", q.Name.Zone, origin)
		}
		return nil
	}
	q.Name.Dialect = s.dialects[zone]
	e, err := explain.Explain(q, *c.facts)
	got := reply{rcode: "NXDOMAIN"}
	if err == nil {
		if e.Result != explain.NXDomain {
			got.rcode = "NOERROR"
		}
		for _, a := range e.Addresses {
			addr := netip.MustParseAddr(a)
			if addr.Is4() == (qtype == "A") {
				got.addrs = append(got.addrs, addr)
			}
		}
	} else if _, none := err.(*explain.NotFoundError); !none {
		return err
	}
	slices.SortFunc(want.addrs, netip.Addr.Compare)
	if got.rcode != want.rcode || !slices.Equal(got.addrs, want.addrs) {
		return fmt.Errorf("explained as %v, answered %v", got, want)
	}
	return nil
}
