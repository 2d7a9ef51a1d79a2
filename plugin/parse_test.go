package clusterset

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/internal/topology"
)

// parseText parses a stanza in a server block for example.org. $DIR stands for a directory, $KUBECONFIG for a file with the
// contexts one and two.
func parseText(t *testing.T, text string) (*options, error) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	contexts := map[string]*clientcmdapi.Context{"one": {Cluster: "one"}, "two": {Cluster: "two"}}
	clusters := map[string]*clientcmdapi.Cluster{"one": {Server: "https://one.test"}, "two": {Server: "https://two.test"}}
	if err := clientcmd.WriteToFile(clientcmdapi.Config{Clusters: clusters, Contexts: contexts, CurrentContext: "one"}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a cluster, even if the test runs in one
	text = strings.NewReplacer("$DIR", dir, "$KUBECONFIG", kubeconfig).Replace(text)
	c := caddy.NewTestController("dns", text)
	c.ServerBlockKeys = []string{"example.org.:53"}
	return parse(c)
}

func TestOptionsAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		name, option string
		get          func(*options) any
		want         any
	}{
		{"ttl is 5 unless it is set", "", func(o *options) any { return o.ttl }, uint32(5)},
		{"ttl", "ttl 30", func(o *options) any { return o.ttl }, uint32(30)},
		{"ttl may be 0", "ttl 0", func(o *options) any { return o.ttl }, uint32(0)},
		{"ttl may be an hour", "ttl 3600", func(o *options) any { return o.ttl }, uint32(3600)},
		{"startup_timeout is 5s unless it is set", "", func(o *options) any { return o.startupTimeout }, 5 * time.Second},
		{"startup_timeout", "startup_timeout 1m30s", func(o *options) any { return o.startupTimeout }, 90 * time.Second},
		{"lameduck is none unless it is set", "", func(o *options) any { return o.lameduck }, time.Duration(0)},
		{"lameduck", "lameduck 10s", func(o *options) any { return o.lameduck }, 10 * time.Second},
		{"startup_timeout may be none", "startup_timeout 0s", func(o *options) any { return o.startupTimeout }, time.Duration(0)},
		{"max_answers has no limit unless it is set", "", func(o *options) any { return o.maxAnswers }, 0},
		{"max_answers", "max_answers 7", func(o *options) any { return o.maxAnswers }, 7},
		{"namespaces are all unless they are set", "", func(o *options) any { return len(o.namespaces) }, 0},
		{"namespaces", "namespaces shop web-1", func(o *options) any { return o.namespaces }, []string{"shop", "web-1"}},
		{"location is unknown unless it is set", "", func(o *options) any { return o.location }, topology.Location{}},
		{"location of a cluster", "location c1", func(o *options) any { return o.location }, topology.Location{Cluster: "c1"}},
		{"location", "location c1 z1 r1", func(o *options) any { return o.location }, topology.Location{Cluster: "c1", Zone: "z1", Region: "r1"}},
		{"location with unknown parts", `location - z1 ""`, func(o *options) any { return o.location }, topology.Location{Zone: "z1"}},
		{"location in words of any script", `location c1 "zone 1" 华北`, func(o *options) any { return o.location }, topology.Location{Cluster: "c1", Zone: "zone 1", Region: "华北"}},
		{"location's cluster without case, as it is a DNS name", "location C1.Ctx Z1", func(o *options) any { return o.location }, topology.Location{Cluster: "c1.ctx", Zone: "Z1"}},
		{"prefer is zone region unless it is set", "", func(o *options) any { return o.policy.Prefer == nil }, true},
		{"prefer", "prefer cluster zone region", func(o *options) any { return o.policy.Prefer }, []topology.Tier{topology.Cluster, topology.Zone, topology.Region}},
		{"prefer none", "prefer none", func(o *options) any { return o.policy.Prefer }, []topology.Tier{}},
		{"prefer in another order", "prefer region cluster", func(o *options) any { return o.policy.Prefer }, []topology.Tier{topology.Region, topology.Cluster}},
		{"boundary is none unless it is set", "", func(o *options) any { return o.policy.Boundary }, topology.Any},
		{"boundary", "boundary region\nlocation - - r1", func(o *options) any { return o.policy.Boundary }, topology.Region},
		{"fallthrough is off unless it is set", "", func(o *options) any { return o.fall.Through("x.example.org.") }, false},
		{"fallthrough", "fallthrough", func(o *options) any { return o.fall.Through("x.example.org.") }, true},
		{"fallthrough in some zones", "fallthrough a.example.org", func(o *options) any {
			return []bool{o.fall.Through("x.a.example.org."), o.fall.Through("x.example.org.")}
		}, []bool{true, false}},
		{"manifests", "", func(o *options) any { return filepath.IsAbs(o.manifests) && o.config == nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parseText(t, "clusterset {\nmanifests $DIR\n"+c.option+"\n}")
			if err != nil {
				t.Fatal(err)
			}
			if got := c.get(o); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Rule A2 of docs/spec/answers.md.
func TestZonesAndDialectsAreUnderstood(t *testing.T) {
	for _, c := range []struct{ name, args, option, want string }{
		{"the server block's", "", "", "example.org. mcs"},
		{"svc.global and global are global, all others mcs", "clusterset.local svc.global global svc.test xsvc.global", "", "clusterset.local. mcs, svc.global. global, global. global, svc.test. mcs, xsvc.global. mcs"},
		{"in any case, each once", "A.test a.TEST. b.test", "", "a.test. mcs, b.test. mcs"},
		{"the closest matches first", "test a.b.test b.test", "", "a.b.test. mcs, b.test. mcs, test. mcs"},
		{"the root", ".", "", ". mcs"},
		{"of arpa, one for homes (RFC 8375)", "fleet.home.arpa xip6.arpa", "", "fleet.home.arpa. mcs, xip6.arpa. mcs"},
		{"a dialect for all", "a.test global", "dialect global", "a.test. global, global. global"},
		{"a dialect for some", "a.test b.test global", "dialect global B.test\ndialect mcs global", "a.test. mcs, b.test. global, global. mcs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parseText(t, "clusterset "+c.args+" {\nmanifests $DIR\n"+c.option+"\n}")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, z := range o.zones {
				got = append(got, z.name+" "+z.dialect.String())
			}
			if strings.Join(got, ", ") != c.want && !sameWords(got, c.want) {
				t.Errorf("got %q, want %s", got, c.want)
			}
			for i := 1; i < len(o.zones); i++ {
				if len(o.zones[i-1].name) < len(o.zones[i].name) {
					t.Errorf("%s stands in front of %s, which is longer", o.zones[i-1].name, o.zones[i].name)
				}
			}
		})
	}
}

// sameWords reports whether got has the wanted zones. The order is ignored, because zones of equal length have no fixed one.
func sameWords(got []string, want string) bool {
	for _, g := range got {
		if !strings.Contains(want, g) {
			return false
		}
	}
	return len(got) == len(strings.Split(want, ", "))
}

func TestSourcesAreUnderstood(t *testing.T) {
	for _, c := range []struct{ name, option, server, key string }{
		{"a kubeconfig's current context", "kubeconfig $KUBECONFIG", "https://one.test", "kubeconfig\x00"},
		{"a kubeconfig's other context", "kubeconfig $KUBECONFIG two", "https://two.test", "kubeconfig\x00two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := parseText(t, "clusterset {\n"+c.option+"\n}")
			if err != nil {
				t.Fatal(err)
			}
			if o.config.Host != c.server {
				t.Errorf("the server is %s, want %s", o.config.Host, c.server)
			}
			if key := o.sourceKey(); !strings.HasSuffix(key, c.key) {
				t.Errorf("the source is shared under %q, want …%q", key, c.key)
			}
		})
	}
}

func TestSnapshotsAreUnderstood(t *testing.T) {
	for option, want := range map[string]time.Duration{"snapshot $DIR/f": 0, "snapshot $DIR/f 36h": 36 * time.Hour} {
		o, err := parseText(t, "clusterset {\nkubeconfig $KUBECONFIG\n"+option+"\n}")
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(o.snapshot.path) != "f" || !filepath.IsAbs(o.snapshot.path) || o.snapshot.maxAge != want {
			t.Errorf("%s: got %v", option, o.snapshot)
		}
	}
}

// Stanzas that read the same API server share a file. Stanzas that read different ones need different files.
func TestASnapshotFileIsOneSources(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name      string
		stanzas   []string // the context, then the option's arguments
		wantError string
	}{
		{"one file for two stanzas of one source", []string{"one f", "one f"}, ""},
		{"one stanza with it and one without", []string{"one f", "one"}, ""},
		{"two files for two sources", []string{"one f", "two g"}, ""},
		{"one file for two sources", []string{"one f", "two f"}, "another stanza, which reads another API server, has the same file"},
		{"two files for one source", []string{"one f", "one g"}, "another stanza that reads the same API server says snapshot"},
		{"two ages for one source", []string{"one f", "one f 1h"}, "use the same file and age in all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ss := &sources{byKey: map[string]*source{}}
			var err error
			for _, stanza := range c.stanzas {
				context, snapshot, kept := strings.Cut(stanza, " ")
				text := "clusterset {\nkubeconfig $KUBECONFIG " + context
				if kept {
					text += "\nsnapshot " + filepath.Join(dir, snapshot)
				}
				o, parseErr := parseText(t, text+"\n}")
				if parseErr != nil {
					t.Fatal(parseErr)
				}
				o.kubeconfig = "kubeconfig" // parseText writes a new kubeconfig each time
				if _, err = ss.get(o); err != nil {
					break
				}
			}
			if c.wantError == "" && err != nil {
				t.Error(err)
			} else if c.wantError != "" {
				expectError(t, err, c.wantError)
			}
		})
	}
}

func TestPathsAreRelativeToTheRootDirectory(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		".":       dir,
		"sub/..":  dir,
		dir + "/": dir,
	} {
		c := caddy.NewTestController("dns", "clusterset test {\nmanifests "+path+"\n}")
		dnsserver.GetConfig(c).Root = dir
		o, err := parse(c)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if o.manifests != want {
			t.Errorf("%s: got %s, want %s", path, o.manifests, want)
		}
	}
}

// Every error states the line, what is wrong, and what would be right.
func TestErrorsNameTheLineTheValueAndTheRemedy(t *testing.T) {
	const options = "want kubeconfig, manifests, location, prefer, boundary, dialect, namespaces, max_answers, ttl, startup_timeout, lameduck, snapshot, express or fallthrough"
	for _, c := range []struct{ option, want string }{
		{"ttl", `ttl: want one number from 0 to 3600, not ""`},
		{"ttl x", `ttl: want one number from 0 to 3600, not "x"`},
		{"ttl -1", `ttl: want one number from 0 to 3600, not "-1"`},
		{"ttl 3601", `ttl: want one number from 0 to 3600, not "3601"`},
		{"ttl 5s", `ttl: want one number from 0 to 3600, not "5s"`},
		{"ttl 1 2", `ttl: want one number from 0 to 3600, not "1 2"`},
		{"max_answers 0", `max_answers: want one number from 1 to 65535, not "0"`},
		{"max_answers 99999999999999999999", `max_answers: want one number from 1 to 65535, not "99999999999999999999"`},
		{"startup_timeout", `startup_timeout: want a duration such as 5s, not ""`},
		{"startup_timeout 5", `startup_timeout: want a duration such as 5s, not "5"`},
		{"lameduck 10", `lameduck: want a duration such as 5s, not "10"`},
		{"startup_timeout -1s", `startup_timeout: want a duration such as 5s, not "-1s"`},
		{"snapshot", "snapshot: want FILE [MAX_AGE]"},
		{"snapshot a b c", "snapshot: want FILE [MAX_AGE]"},
		{"snapshot f 24", `snapshot: want a maximum age of at least 5m0s, such as 24h, not "24"`},
		{"snapshot f 10s", `not "10s"`},
		{"snapshot $DIR", "isn't a regular file"},
		{"namespaces", "namespaces: want one or more namespaces"},
		{"namespaces ok Not_OK", `namespaces: namespace "Not_OK" must be a DNS label`},
		{"location", "location: want CLUSTER [ZONE [REGION]], with - for an unknown value"},
		{"location a b c d", "location: want CLUSTER [ZONE [REGION]], with - for an unknown value"},
		{"location a.b.c", `location: cluster "a.b.c" must be a cluster name`},
		{"location a_b", `location: cluster "a_b" must be a cluster name`},
		{`location c1 " z"`, `location: " z" must be the name of a zone or region`},
		{"prefer", "prefer: want one or more of cluster, zone and region, the most wanted first"},
		{"prefer rack", `prefer: unknown tier "rack": want one or more of cluster, zone and region`},
		{"prefer zone none", "prefer: none stands alone"},
		{"prefer zone zone", "prefer: zone is listed twice"},
		{"boundary", "boundary: want cluster, zone or region"},
		{"boundary zone region", "boundary: want cluster, zone or region"},
		{"boundary rack", `boundary: unknown tier "rack": want cluster, zone or region`},
		{"dialect", "dialect: want global or mcs [ZONES...]"},
		{"dialect klingon", `dialect: unknown dialect "klingon": want global or mcs`},
		{"dialect global other.test", "dialect: other.test. isn't a zone of this stanza"},
		{"kubeconfig", "kubeconfig: want FILE [CONTEXT]"},
		{"kubeconfig a b c", "kubeconfig: want FILE [CONTEXT]"},
		{"kubeconfig /nonexistent/file", "/nonexistent/file"},
		{"kubeconfig $KUBECONFIG three", "three"},
		{"manifests a b", "manifests: want one directory"},
		{"manifests /nonexistent/dir", "manifests: stat /nonexistent/dir"},
		{"manifests $KUBECONFIG", "kubeconfig isn't a directory"},
		{"endpoint https://1.2.3.4", `unknown option "endpoint": ` + options},
		{"TTL 5", `unknown option "TTL": ` + options},
	} {
		t.Run(c.option, func(t *testing.T) {
			_, err := parseText(t, "clusterset {\n# a comment\n"+c.option+"\n}")
			expectError(t, err, "Testfile:3 - Error during parsing: ", c.want)
		})
	}
}

// Rule A61 of docs/spec/answers.md: no reverse zones.
func TestErrorsOfTheStanzaAsAWhole(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an option that is set twice", "clusterset {\nmanifests $DIR\nttl 5\nttl 6\n}", "Testfile:4 - Error during parsing: ttl is set twice"},
		{"a source that is set twice", "clusterset {\nmanifests $DIR\nmanifests $DIR\n}", "Testfile:3 - Error during parsing: manifests is set twice"},
		{"two sources", "clusterset {\nmanifests $DIR\nkubeconfig $KUBECONFIG\n}", "kubeconfig and manifests are mutually exclusive"},
		{"a snapshot of manifests", "clusterset {\nmanifests $DIR\nsnapshot $DIR/f\n}", "snapshot and manifests are mutually exclusive: manifests are files"},
		{"no source", "clusterset {\nttl 5\n}", "no source: not in a cluster"},
		{"no source says what to do", "clusterset", "set kubeconfig FILE or manifests DIR"},
		{"a boundary that nothing can lie within", "clusterset {\nmanifests $DIR\nboundary region\nlocation c z\n}", "boundary region: the region of this server is unknown"},
		{"such a boundary says what to do", "clusterset {\nmanifests $DIR\nboundary zone\n}", "set it with location CLUSTER ZONE REGION"},
		{"a reverse zone", "clusterset a.test 10.in-addr.arpa {\nmanifests $DIR\n}", "Testfile:1 - Error during parsing: zone 10.in-addr.arpa.: clusterset has no PTR records, and would hide another plugin's"},
		{"a network", "clusterset a.test fd00::/8 {\nmanifests $DIR\n}", "zone d.f.ip6.arpa.: clusterset has no PTR records"},
		{"both reverse zones", "clusterset ARPA {\nmanifests $DIR\n}", "zone arpa.: clusterset has no PTR records"},
		{"two stanzas", "clusterset {\nmanifests $DIR\n}\nclusterset a.test {\nmanifests $DIR\n}", "Testfile:4 - Error during parsing: a server block takes one clusterset stanza; give it several zones instead"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseText(t, c.text)
			expectError(t, err, "Testfile:", c.want)
		})
	}
}

// The block's zone may be everything, but that is hardly what a stanza in it should answer. Rule A56 of docs/spec/answers.md.
func TestTheRootIsNoZoneUnlessItIsNamed(t *testing.T) {
	for _, key := range []string{".:53", "dns://.", "a.test .:1053"} {
		c := caddy.NewTestController("dns", "clusterset {\nmanifests .\n}")
		c.ServerBlockKeys = strings.Fields(key)
		_, err := parse(c)
		expectError(t, err, "Testfile:1 - Error during parsing: zone .: clusterset would answer NXDOMAIN for every other name; name its zones, such as clusterset clusterset.local svc.global")
	}
}

func expectError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want an error with %q", err, w)
		}
	}
}
