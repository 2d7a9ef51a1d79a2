package clusterset

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"golang.org/x/tools/txtar"
)

// parseText parses a stanza in a server block for example.org. $DIR stands for a directory, $KUBECONFIG for a file with the
// contexts one and two.
func parseText(t *testing.T, dir, text string) (*options, error) {
	t.Helper()
	const contexts = "{clusters: [{name: a, cluster: {server: 'https://one.test'}}, {name: b, cluster: {server: 'https://two.test'}}], " +
		"contexts: [{name: one, context: {cluster: a}}, {name: two, context: {cluster: b}}], current-context: one}"
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a cluster, even if the test runs in one
	c := caddy.NewTestController("dns", strings.NewReplacer("$DIR", dir, "$KUBECONFIG", filepath.Join(dir, "kubeconfig")).Replace(text))
	c.ServerBlockKeys = []string{"example.org.:53"}
	return parse(c)
}

// describe says what the parser understood.
func describe(o *options) string {
	prefer := "zone region"
	if o.policy.Prefer != nil {
		prefer = cmp.Or(strings.Trim(fmt.Sprint(o.policy.Prefer), "[]"), "none")
	}
	var zones []string
	for _, z := range o.zones {
		zones = append(zones, z.name+" "+z.dialect.String())
	}
	text := fmt.Sprintf("ttl %d, startup_timeout %v, lameduck %v, max_answers %d, namespaces %v, location %s/%s/%s, prefer %s, boundary %v, fallthrough %v, snapshot %v, ",
		o.ttl, o.startupTimeout, o.lameduck, o.maxAnswers, o.namespaces, o.location.Cluster, o.location.Zone, o.location.Region, prefer, o.policy.Boundary, o.fall.Zones, o.snapshot)
	if o.config == nil {
		text += "manifests " + o.manifests
	} else {
		_, context, _ := strings.Cut(o.sourceKey(), o.kubeconfig+"\x00")
		text += fmt.Sprintf("server %s, context %q", o.config.Host, context)
	}
	return fmt.Sprintf("%s, zones %v", text, zones)
}

// Every error states the line, what is wrong, and what would be right. Rules A2 and A61 of docs/spec/answers.md.
func TestStanzas(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/stanzas/parse.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		for line := range strings.Lines(string(f.Data)) {
			text, want, found := strings.Cut(strings.TrimSpace(line), " | ")
			if !found && strings.HasPrefix(text, "# ") {
				continue
			}
			text, where := strings.ReplaceAll(text, "; ", "\n"), "Testfile:"
			if !strings.HasPrefix(text, "clusterset") {
				text, where = "clusterset {\nmanifests $DIR\n"+text+"\n}", "Testfile:3 - Error during parsing: "
			}
			o, err := parseText(t, dir, text)
			understood, ok := strings.CutPrefix(want, "ok ")
			switch {
			case !ok:
				expectError(t, err, where, want)
			case err != nil:
				t.Errorf("%s: %v", text, err)
			case !strings.Contains(strings.ReplaceAll(describe(o), dir, "$DIR"), understood):
				t.Errorf("%s: got %s, want %s", text, describe(o), understood)
			}
		}
	}
}

// Stanzas that read the same API server share a file. Stanzas that read different ones need different files.
func TestASnapshotFileIsOneSources(t *testing.T) {
	for _, c := range []struct {
		stanzas   []string // the context, then the option's arguments
		wantError string
	}{
		{[]string{"one f", "one f"}, ""},
		{[]string{"one f", "one"}, ""},
		{[]string{"one f", "two g"}, ""},
		{[]string{"one f", "two f"}, "another stanza, which reads another API server, has the same file"},
		{[]string{"one f", "one g"}, "another stanza that reads the same API server says snapshot"},
		{[]string{"one f", "one f 1h"}, "use the same file and age in all"},
	} {
		t.Run(strings.Join(c.stanzas, ", "), func(t *testing.T) {
			dir, ss := t.TempDir(), &sources{byKey: map[string]*source{}}
			var err error
			for _, stanza := range c.stanzas {
				text := strings.Replace("clusterset {\nkubeconfig $KUBECONFIG "+stanza+"\n}", " f", "\nsnapshot $DIR/f", 1)
				o, parseErr := parseText(t, dir, strings.Replace(text, " g", "\nsnapshot $DIR/g", 1))
				if parseErr != nil {
					t.Fatal(parseErr)
				}
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
	for _, path := range []string{".", "sub/..", dir + "/"} {
		c := caddy.NewTestController("dns", "clusterset test {\nmanifests "+path+"\n}")
		dnsserver.GetConfig(c).Root = dir
		if o, err := parse(c); err != nil || o.manifests != dir {
			t.Errorf("%s: got %v, %v, want %s", path, o, err, dir)
		}
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
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want an error with %q", err, w)
		}
	}
}
