package datapath

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/kube"
)

// The manifests of docs/recipes/postgresql.md make a primary and a replica in two clusters. Applications in all clusters reach the primary by
// its ClusterSetIP and by the Service's own name, also after it has moved because its cluster was lost. The lost one returns as a replica.
func TestPostgreSQL(t *testing.T) {
	p := newPostgres(t)
	xicheng, minhang := p.w.cluster("xicheng"), p.w.cluster("minhang")
	for _, c := range p.w.clusters {
		p.install(c)
	}
	p.run(xicheng)
	p.ready(xicheng)
	p.label(xicheng, "primary")
	p.run(minhang)
	p.ready(minhang)
	p.write("first")
	p.has(minhang, "first")

	xicheng.die(t)
	began := time.Now()
	p.ask(minhang, p.host(minhang), "SELECT pg_promote()")
	p.label(minhang, "primary")
	p.write("without a cluster", xicheng)
	t.Logf("the primary was written to in every other cluster %s after its promotion began", time.Since(began).Round(100*time.Millisecond))

	// The page's steps for its return.
	p.label(xicheng, "")
	p.running[xicheng].process.Kill()
	p.find(xicheng)
	p.apply(xicheng, strings.Replace(p.configMap(xicheng), "primary: xicheng", "primary: minhang", 1))
	p.delete(xicheng)
	p.emptyVolume(xicheng, "data")
	p.run(xicheng)
	p.ready(xicheng)
	p.has(xicheng, "first")
	p.write("after its return")
	p.has(xicheng, "after its return")
}

// postgres is the recipe's primary and replica.
type postgres struct {
	*recipe
	bin string // the folder of Debian's programs
}

// newPostgres finds Debian's PostgreSQL, which refuses to run as root.
func newPostgres(t *testing.T) *postgres {
	t.Helper()
	w := set(t)
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		if os.Getenv("CLUSTERSET_DATAPATH") == "required" {
			t.Fatal("PostgreSQL isn't installed")
		}
		t.Skip("PostgreSQL isn't installed (Debian's package postgresql)")
	}
	w.hurryHub(t)
	bin := filepath.Dir(found[len(found)-1])
	r := w.recipe(t, "postgresql.md", "setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "env", "PATH="+bin+":/usr/bin:/bin", "sh")
	r.user = "postgres"
	if err := os.Chmod(filepath.Dir(r.data), 0o755); err != nil { //nolint:gosec // the user has to get to the volumes
		t.Fatal(err)
	}
	return &postgres{recipe: r, bin: bin}
}

// configMap returns a cluster's, with the primary in xicheng as on the page.
func (p *postgres) configMap(c *cluster) string {
	return strings.Replace(p.manifest(c, "ConfigMap"), "primary: "+c.Name, "primary: xicheng", 1)
}

// install applies the page's manifests: those for applications everywhere, the others where a database runs.
func (p *postgres) install(c *cluster) {
	p.Helper()
	objects := []string{}
	for _, m := range p.manifests {
		application := strings.Contains(m, "kind: Namespace") || strings.Contains(m, "name: postgres-primary")
		if application || c.Name != "chaoyang" {
			objects = append(objects, m)
		}
	}
	p.keep(c, objects...)
	if c.Name != "chaoyang" {
		p.apply(c, p.configMap(c))
	}
}

func (p *postgres) host(c *cluster) string {
	return "postgres-0." + c.Name + ".postgres.shop.svc.clusterset.local"
}

// label gives the cluster's Pod a role, or takes it.
func (p *postgres) label(c *cluster, role string) {
	p.Helper()
	value := "null"
	if role != "" {
		value = `"` + role + `"`
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = recipeNamespace, "postgres-0"
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"role":`+value+`}}}`))
	if err := c.Client.Patch(p.Context(), pod, patch); err != nil {
		p.Fatal(err)
	}
}

// try runs a statement from a cluster's first node.
func (p *postgres) try(c *cluster, address, statement string) (string, error) {
	cmd := exec.CommandContext(p.Context(), c.nsenter, "--net="+c.nodes[0].ns.path(), "--", filepath.Join(p.bin, "psql"),
		"--no-psqlrc", "-qAt", "--username=postgres", "--host="+address, "--command="+statement)
	cmd.Env = append(os.Environ(), "PGPASSWORD=change-me", "PGCONNECT_TIMEOUT=3")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s, from %s at %s: %w: %s", statement, c.Name, address, err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// resolve returns the first address that a name has in a cluster.
func (p *postgres) resolve(c *cluster, host string) (string, error) {
	if net.ParseIP(host) != nil {
		return host, nil
	}
	addrs, err := p.resolver(c).LookupHost(p.Context(), host)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// ask runs a statement until it succeeds.
func (p *postgres) ask(c *cluster, host, statement string) (answer string) {
	p.Helper()
	kube.Eventually(p, func() error {
		address, err := p.resolve(c, host)
		if err != nil {
			return err
		}
		answer, err = p.try(c, address, statement)
		return err
	})
	return answer
}

// write writes a word to the primary by both of its names, in every cluster but those that are lost.
func (p *postgres) write(word string, lost ...*cluster) {
	p.Helper()
	for _, c := range p.w.clusters {
		if len(lost) > 0 && c == lost[0] {
			continue
		}
		var own corev1.Service
		if err := c.Client.Get(p.Context(), client.ObjectKey{Namespace: recipeNamespace, Name: "postgres-primary"}, &own); err != nil {
			p.Fatal(err)
		}
		for _, host := range []string{"postgres-primary.shop.svc.clusterset.local", own.Spec.ClusterIP} {
			p.ask(c, host, "CREATE TABLE IF NOT EXISTS words (word text); INSERT INTO words VALUES ('"+word+"')")
		}
	}
}

// has waits until a cluster's own database, a replica, has a word.
func (p *postgres) has(c *cluster, word string) {
	p.Helper()
	kube.Eventually(p, func() error {
		address, err := p.resolve(c, p.host(c))
		if err != nil {
			return err
		}
		got, err := p.try(c, address, "SELECT pg_is_in_recovery(), count(*) > 0 FROM words WHERE word = '"+word+"'")
		if err == nil && got != "t|t" {
			err = fmt.Errorf("%s, a replica and with the word %q: %s", c.Name, word, got)
		}
		return err
	})
}
