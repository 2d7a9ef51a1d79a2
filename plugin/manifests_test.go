package clusterset_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manifestsDir is a directory from which a running server answers.
type manifestsDir struct {
	*liveServer
	dir string
	log *logLines
}

// serveManifests starts a server with a new directory of these files.
func serveManifests(t *testing.T, files map[string][]byte) *manifestsDir {
	t.Helper()
	d := &manifestsDir{dir: filepath.Join(t.TempDir(), "manifests"), log: recordLog(t)}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		d.write(t, name, data)
	}
	d.liveServer = startLive(t, withSource(".:0 {\n    bind 127.0.0.1\n    clusterset clusterset.local svc.global\n}\n", "manifests "+d.dir))
	return d
}

func (d *manifestsDir) write(t *testing.T, name string, data []byte) {
	t.Helper()
	writeFile(t, filepath.Join(d.dir, name), data)
}

func (d *manifestsDir) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(d.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// nameOf returns the question for the address of a service in namespace shop.
func nameOf(service string) string { return "A " + service + ".shop.svc.clusterset.local" }

func vipYAML(name, ip string) []byte { return importYAML("shop", name, "ClusterSetIP", ip) }

// documents joins manifests into one file.
func documents(manifests ...[]byte) []byte { return bytes.Join(manifests, []byte("---\n")) }

func TestManifestsAreFollowed(t *testing.T) {
	d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1")})
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "NXDOMAIN"})
	d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2"})
	d.write(t, "b.yml", vipYAML("b", "10.0.0.3"))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2", nameOf("b"): "10.0.0.3"})
	d.write(t, "a.yaml", documents(vipYAML("a", "10.0.0.2"), vipYAML("c", "10.0.0.4"), memberYAML("m", "a", "r1", false)))
	d.expect(t, map[string]string{nameOf("c"): "10.0.0.4"})
	expectMetric(t, 3, "objects", "source", "manifests", "kind", "ServiceImport")
	expectMetric(t, 1, "objects", "source", "manifests", "kind", "MemberCluster")
	// A renamed file keeps its objects.
	stop := d.askAlong(t, map[string][]string{nameOf("b"): {"10.0.0.3"}})
	if err := os.Rename(filepath.Join(d.dir, "b.yml"), filepath.Join(d.dir, "z.json.yaml")); err != nil {
		t.Fatal(err)
	}
	d.remove(t, "a.yaml")
	d.expect(t, map[string]string{nameOf("a"): "NXDOMAIN", nameOf("b"): "10.0.0.3", nameOf("c"): "NXDOMAIN"})
	stop()
	d.remove(t, "z.json.yaml")
	d.expect(t, map[string]string{nameOf("b"): "NXDOMAIN"})
	expectMetric(t, 0, "objects", "source", "manifests", "kind", "ServiceImport")
}

// A broken file may mean anything, so its last good state stays in use. Other files are not affected. A reload reads the files anew, but what is
// broken stays broken.
func TestABrokenFileKeepsItsLastGoodState(t *testing.T) {
	for name, broken := range map[string]string{
		"a document that is no YAML":  string(vipYAML("a", "10.0.0.9")) + "---\nkind: [\n",
		"a document without a kind":   string(vipYAML("a", "10.0.0.9")) + "---\n\n# a comment\nmetadata: {name: a}\n",
		"a key that is written twice": strings.Replace(string(vipYAML("a", "10.0.0.9")), "spec:", "kind: ServiceImport\nspec:", 1),
		"half of it":                  `{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"na`,
		"no object at all":            "just words\n",
		"nothing, as of a full disk":  "",
	} {
		t.Run(name, func(t *testing.T) {
			d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1"), "b.yaml": vipYAML("b", "10.0.1.1")})
			d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
			failures := metric("source_errors_total", "source", "manifests", "kind", "file")
			stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1"}, nameOf("b"): {"10.0.1.1", "10.0.1.2"}})
			d.write(t, "a.yaml", []byte(broken))
			d.log.expect(t, "what a.yaml last held is still served")
			d.write(t, "b.yaml", vipYAML("b", "10.0.1.2"))
			d.expect(t, map[string]string{nameOf("b"): "10.0.1.2"})
			stop()
			if metric("source_errors_total", "source", "manifests", "kind", "file") == failures {
				t.Error("the failure isn't counted")
			}
			corefile := string(d.instance.Caddyfile().Body())
			for i := range 3 { // of each reload, the one before is the running server
				if err := d.reload(corefile); err != nil {
					t.Fatal(err)
				}
				for question, want := range map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.2"} {
					if got, err := d.ask(question); err != nil || got != want {
						t.Errorf("after reload %d: dig %s: got %s, %v, want %s", i, question, got, err, want)
					}
				}
			}
			d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
			d.remove(t, "b.yaml")
			d.expect(t, map[string]string{nameOf("a"): "10.0.0.2", nameOf("b"): "NXDOMAIN"})
		})
	}
}

// A file that a broken tool wrote doesn't fill the disk: of many bad objects and duplicates the log has the first twenty, then one every ten
// seconds, and each line is cut.
func TestManyBadObjectsInAFileDontFloodTheLog(t *testing.T) {
	objects := [][]byte{vipYAML("web", "10.0.0.1")}
	for range 200 {
		objects = append(objects, vipYAML("web", strings.Repeat("x", 5000))) // duplicates, too
	}
	d := serveManifests(t, map[string][]byte{"a.yaml": documents(objects...)})
	d.expect(t, map[string]string{nameOf("web"): "10.0.0.1"})
	d.log.expect(t, "a.yaml:", "xxx")
	lines := 0
	for _, line := range d.log.lines() {
		if strings.Contains(line, "a.yaml:") {
			lines++
		}
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if lines > 30 {
		t.Errorf("%d lines", lines)
	}
}

// The kubelet updates a mounted ConfigMap by moving one symbolic link. The names in the directory stay the same: they are links
// through that link.
func TestAConfigMapIsFollowed(t *testing.T) {
	d := serveManifests(t, nil)
	revision := func(name string, modified time.Time, last string) {
		t.Helper()
		for _, file := range []string{"a", "b"} {
			path := filepath.Join(d.dir, name, file+".yaml")
			writeFile(t, path, vipYAML(file, "10.0.0."+last))
			if err := os.Chtimes(path, modified, modified); err != nil {
				t.Fatal(err)
			}
		}
		data := filepath.Join(d.dir, "..data")
		if err := errors.Join(os.Symlink(name, data+"_tmp"), os.Rename(data+"_tmp", data)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	revision("..1", now, "1")
	for _, file := range []string{"a.yaml", "b.yaml"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(d.dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.0.1"})
	stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nameOf("b"): {"10.0.0.1", "10.0.0.2", "10.0.0.3"}})
	revision("..2", now.Add(time.Second), "2")
	d.remove(t, "..1")
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2", nameOf("b"): "10.0.0.2"})
	// Container images, git-sync and similar tools give all files the same time, so neither the time nor the size distinguishes
	// versions.
	revision("..3", now.Add(time.Second), "3")
	d.remove(t, "..2")
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.3", nameOf("b"): "10.0.0.3"})
	stop()
}

// A removed directory doesn't mean that its services are gone, so they are answered as before. A directory that comes back is a
// different directory, which the watch on the first one doesn't see.
func TestADirectoryThatGoesAndComesBackIsFollowed(t *testing.T) {
	d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1")})
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1"})
	for i := range 2 {
		current := fmt.Sprintf("10.0.0.%d", i+1)
		stop := d.askAlong(t, map[string][]string{nameOf("a"): {current}})
		d.log.forget()
		if err := os.Rename(d.dir, fmt.Sprintf("%s.%d", d.dir, i)); err != nil { // a rename is atomic, removing isn't
			t.Fatal(err)
		}
		d.log.expect(t, "what was last read is still served")
		stop()
		staged := d.dir + ".new"
		writeFile(t, filepath.Join(staged, "a.yaml"), vipYAML("a", fmt.Sprintf("10.0.0.%d", i+2)))
		if err := os.Rename(staged, d.dir); err != nil {
			t.Fatal(err)
		}
		d.expect(t, map[string]string{nameOf("a"): fmt.Sprintf("10.0.0.%d", i+2)})
	}
	d.write(t, "b.yaml", vipYAML("b", "10.0.1.1"))
	d.expect(t, map[string]string{nameOf("b"): "10.0.1.1"})
}
