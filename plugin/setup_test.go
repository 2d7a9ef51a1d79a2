package clusterset_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/plugin/root" // for relative paths
)

// These tests include what Caddy does to a Corefile before clusterset parses it, because operators use those features
// too.

// setupFiles creates a directory with one headless service in zones a and b, and returns the directory's parent.
func setupFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var objects []byte
	for _, manifest := range [][]byte{
		importYAML("shop", "db", "Headless"),
		sliceYAML("shop", "db-a", "db", "ca", "10.0.0.1"), sliceYAML("shop", "db-b", "db", "cb", "10.0.0.2"),
		memberYAML("ca", "a", "r1", false), memberYAML("cb", "b", "r2", false),
	} {
		objects = append(append(objects, manifest...), "\n---\n"...)
	}
	writeFile(t, filepath.Join(dir, "objects", "objects.yaml"), objects)
	return dir
}

func TestLocationComesFromTheEnvironment(t *testing.T) {
	dir := setupFiles(t)
	for zone, want := range map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "": "10.0.0.1, 10.0.0.2"} {
		t.Run("zone "+zone, func(t *testing.T) {
			t.Setenv("TEST_CLUSTER", "here")
			t.Setenv("TEST_ZONE", zone)
			t.Setenv("TEST_REGION", "")
			s := startLive(t, fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1
    clusterset {
        manifests %s/objects
        location {$TEST_CLUSTER} "{$TEST_ZONE}" "{$TEST_REGION}"
    }
}
`, dir))
			s.expect(t, map[string]string{"A db.shop.svc.clusterset.local": want})
		})
	}
}

// A pod gets its zone from the environment. On a node without the label, the variable is unset.
func TestUnsetVariablesAtTheEndOfALocationAreUnknown(t *testing.T) {
	dir := setupFiles(t)
	t.Setenv("TEST_CLUSTER", "here")
	s := startLive(t, fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1
    clusterset {
        manifests %s/objects
        location {$TEST_CLUSTER} {$TEST_UNSET_ZONE} {%%TEST_UNSET_REGION%%}
    }
}
`, dir))
	s.expect(t, map[string]string{"A db.shop.svc.clusterset.local": "10.0.0.1, 10.0.0.2"})
}

func TestManifestsAreRelativeToTheRootPlugin(t *testing.T) {
	s := startLive(t, fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1
    root %s
    clusterset {
        manifests objects
    }
}
`, setupFiles(t)))
	s.expect(t, map[string]string{"A db.shop.svc.clusterset.local": "10.0.0.1, 10.0.0.2"})
}

// An unreachable source must not keep a server from starting: the server may be the one that resolves the source's
// name.
func TestAServerStartsWithoutItsAPIServer(t *testing.T) {
	dir := t.TempDir()
	s := startLive(t, fmt.Sprintf(`clusterset.local:0 {
    bind 127.0.0.1
    clusterset {
        %s
        startup_timeout 10ms
    }
}
`, provideUnreachable(t, dir, nil)))
	s.expect(t, map[string]string{"A db.shop.svc.clusterset.local": "SERVFAIL"})
}

func TestCorefileErrorsNameFileAndLine(t *testing.T) {
	dir := setupFiles(t)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct{ name, stanza, want string }{
		{"a bad value", "clusterset {\n        manifests %s/objects\n        ttl x\n    }", `plugin/clusterset: Corefile:5 - Error during parsing: ttl: want one number from 0 to 3600, not "x"`},
		{"no source", "clusterset # %s", "no source: not in a cluster"},
		{"two stanzas in one server block", "clusterset {\n        manifests %[1]s/objects\n    }\n    clusterset {\n        manifests %[1]s/objects\n    }", "Corefile:6 - Error during parsing: a server block takes one clusterset stanza"},
		{"a directory that isn't there", "clusterset {\n        manifests %s/missing\n    }", "Corefile:4 - Error during parsing: manifests: stat "},
		{"an environment variable with nonsense", "clusterset {\n        manifests %s/objects\n        location c1 {$TEST_NONSENSE}\n    }", "Corefile:5 - Error during parsing: location: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TEST_NONSENSE", "a\x01b")
			_, err := caddy.Start(liveInput("clusterset.local:0 {\n    bind 127.0.0.1\n    " + fmt.Sprintf(c.stanza, dir) + "\n}\n"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %s", err, c.want)
			}
		})
	}
}

// Without a next plugin, the other names of the top-level domain can't be resolved. The log warns about that.
func TestTheTopLevelDomainNeedsANextPlugin(t *testing.T) {
	dir := setupFiles(t)
	log := recordLog(t)
	for _, c := range []struct {
		zones, others string
		warned        bool
	}{
		{"clusterset.local global", "", true},
		{"clusterset.local global", "erratic {\n        drop 0\n    }", false},
		{"clusterset.local svc.global", "", false},
	} {
		log.forget()
		s := startLive(t, fmt.Sprintf(".:0 {\n    bind 127.0.0.1\n    clusterset %s {\n        manifests %s/objects\n    }\n    %s\n}\n", c.zones, dir, c.others))
		if got := log.has("Serve svc.global instead"); got != c.warned {
			t.Errorf("%s %s: warned %t, want %t", c.zones, c.others, got, c.warned)
		}
		want := map[string]string{"A db.shop.svc.global": "10.0.0.1, 10.0.0.2"}
		if c.warned {
			want["A www.company.global"] = "NXDOMAIN"
		}
		s.expect(t, want)
	}
}

// Whoever names the root gets it, and a warning unless other plugins get the names that don't exist.
func TestTheRootZoneHidesLaterPlugins(t *testing.T) {
	dir := setupFiles(t)
	log := recordLog(t)
	for _, c := range []struct {
		zones, option string
		warned        bool
	}{
		{".", "", true},
		{".", "fallthrough a.test", true},
		{".", "fallthrough", false},
		{"clusterset.local", "", false},
	} {
		log.forget()
		s := startLive(t, fmt.Sprintf(".:0 {\n    bind 127.0.0.1\n    clusterset %s {\n        manifests %s/objects\n        %s\n    }\n    erratic {\n        drop 0\n    }\n}\n", c.zones, dir, c.option))
		if got := log.has("zone .: ", "set fallthrough"); got != c.warned {
			t.Errorf("%s %s: warned %t, want %t", c.zones, c.option, got, c.warned)
		}
		if got, err := s.ask("A www.example.org"); err != nil || (got == "NXDOMAIN") != c.warned {
			t.Errorf("%s %s: got %s, %v", c.zones, c.option, got, err)
		}
	}
}
