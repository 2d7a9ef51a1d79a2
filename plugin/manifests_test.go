package clusterset_test

import (
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

// serveManifests starts a server with a directory of these files.
func serveManifests(t *testing.T, files map[string][]byte) *manifestsDir {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "manifests")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return serveManifestsAt(t, dir, files)
}

// serveManifestsAt is serveManifests with an existing directory.
func serveManifestsAt(t *testing.T, dir string, files map[string][]byte) *manifestsDir {
	t.Helper()
	d := &manifestsDir{dir: dir, log: recordLog(t)}
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
func documents(manifests ...[]byte) []byte {
	var file []byte
	for i, m := range manifests {
		if i > 0 {
			file = append(file, "---\n"...)
		}
		file = append(file, m...)
	}
	return file
}

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

// A broken file may mean anything, so its last good state stays in use. Other files are not affected.
func TestABrokenFileKeepsItsLastGoodState(t *testing.T) {
	for _, c := range []struct {
		name, broken string
		words        []string
	}{
		// A good document has eight lines, and the "---" after it is the ninth.
		{"a document that is no YAML", string(vipYAML("a", "10.0.0.9")) + "---\nkind: [\n", []string{"a.yaml:1"}},
		{"a document without a kind", string(vipYAML("a", "10.0.0.9")) + "---\n\n# a comment\nmetadata: {name: a}\n", []string{"a.yaml:1", "apiVersion and kind are missing"}},
		{"a key that is written twice", strings.Replace(string(vipYAML("a", "10.0.0.9")), "spec:", "kind: ServiceImport\nspec:", 1), []string{"a.yaml:", `"kind" already set`}},
		{"half of it", `{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"na`, []string{"a.yaml:"}},
		{"no object at all", "just words\n", []string{"a.yaml:1", "want an object with apiVersion and kind"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1"), "b.yaml": vipYAML("b", "10.0.1.1")})
			d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
			failures := metric(t, "source_errors_total", "source", "manifests", "kind", "file")
			stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1"}, nameOf("b"): {"10.0.1.1", "10.0.1.2"}})
			d.write(t, "a.yaml", []byte(c.broken))
			d.log.expect(t, append(c.words, "what a.yaml last held is still served")...)
			d.write(t, "b.yaml", vipYAML("b", "10.0.1.2"))
			d.expect(t, map[string]string{nameOf("b"): "10.0.1.2"})
			stop()
			if metric(t, "source_errors_total", "source", "manifests", "kind", "file") == failures {
				t.Error("the failure isn't counted")
			}
			d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
			d.expect(t, map[string]string{nameOf("a"): "10.0.0.2"})
		})
	}
}

func TestAFileThatIsBrokenAtTheStartHoldsUpNobody(t *testing.T) {
	d := serveManifests(t, map[string][]byte{"a.yaml": []byte("kind: ["), "b.yaml": vipYAML("b", "10.0.1.1")})
	d.expect(t, map[string]string{nameOf("a"): "NXDOMAIN", nameOf("b"): "10.0.1.1"})
	d.write(t, "a.yaml", vipYAML("a", "10.0.0.1"))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1"})
}

// An error names the line in the file, so that an editor can go there, not the line within the document.
func TestErrorsNameTheLineOfTheFile(t *testing.T) {
	good := string(vipYAML("a", "10.0.0.1"))
	before := strings.Count(good, "\n") + 1 // including the "---"
	d := serveManifests(t, map[string][]byte{
		"yaml.yaml": []byte(good + "---\napiVersion: v1\nkind: List\nitems: {[\n"),
		"list.yaml": []byte(good + "---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod}, {}]}\n"),
		"typo.yaml": []byte(good + "---\n" + strings.Replace(strings.Replace(string(vipYAML("b", "10.0.0.2")), "ports:", "prots:", 1), "\napi", "api", 1)),
		"json.json": []byte("{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\"}\n\n{\"apiVersion\": \"v1\"}\n"),
	})
	d.log.expect(t, fmt.Sprintf("yaml.yaml:%d: yaml:", before+3))
	d.log.expect(t, fmt.Sprintf("list.yaml:%d: items[1]: apiVersion and kind are missing", before+1))
	d.log.expect(t, fmt.Sprintf("typo.yaml:%d: ", before+1), `unknown field "spec.prots"`)
	d.log.expect(t, "json.json:4: apiVersion and kind are missing")
	// A misspelt field is ignored, and the rest of the object is used.
	d.expect(t, map[string]string{nameOf("b"): "10.0.0.2"})
}

func TestOfADuplicateObjectTheFirstCounts(t *testing.T) {
	d := serveManifests(t, map[string][]byte{
		"a.yaml": documents(vipYAML("x", "10.0.0.1"), vipYAML("a", "10.0.0.2"), vipYAML("a", "10.0.0.3")),
		"b.yaml": vipYAML("x", "10.0.0.4"),
	})
	d.expect(t, map[string]string{nameOf("x"): "10.0.0.1", nameOf("a"): "10.0.0.2"})
	d.log.expect(t, "b.yaml:", "ServiceImport shop/x is already defined at a.yaml:", "which is used")
	d.log.expect(t, "a.yaml:", "ServiceImport shop/a is already defined at a.yaml:", "which is used")
	// When the first object is removed, the second replaces it without a gap.
	stop := d.askAlong(t, map[string][]string{nameOf("x"): {"10.0.0.1", "10.0.0.4"}})
	d.remove(t, "a.yaml")
	d.expect(t, map[string]string{nameOf("x"): "10.0.0.4", nameOf("a"): "NXDOMAIN"})
	stop()
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
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	lines := 0
	for _, line := range d.log.lines {
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

func TestListsAndJSONAreRead(t *testing.T) {
	item := func(name, ip string) string {
		return fmt.Sprintf(`{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": %q, "namespace": "shop"}, "spec": {"type": "ClusterSetIP", "ips": [%q], "ports": []}}`, name, ip)
	}
	d := serveManifests(t, map[string][]byte{
		"list.yaml":   []byte("apiVersion: v1\nkind: List\nitems:\n- " + item("list-1", "10.0.0.1") + "\n- " + item("list-2", "10.0.0.2") + "\n"),
		"typed.yaml":  []byte("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImportList\nmetadata: {resourceVersion: \"7\"}\nitems:\n- " + item("typed", "10.0.0.3") + "\n"),
		"nested.json": []byte(`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "List", "items": [` + item("nested", "10.0.0.4") + `]}]}`),
		"empty.json":  []byte(`{"apiVersion": "v1", "kind": "List", "items": []}`),
		"one.json":    []byte(item("one", "10.0.0.5")),
		"stream.json": []byte(item("stream-1", "10.0.0.6") + "\n" + item("stream-2", "10.0.0.7") + item("stream-3", "10.0.0.8")),
		"mixed.yaml":  []byte("# JSON is YAML\n---\n---\n" + item("mixed-1", "10.0.0.9") + "\n---\n" + string(vipYAML("mixed-2", "10.0.0.10"))),
		"alpha.yaml":  []byte(strings.Replace(item("alpha", "10.0.0.11"), "v1beta1", "v1alpha1", 1)),
	})
	for i, name := range []string{"list-1", "list-2", "typed", "nested", "one", "stream-1", "stream-2", "stream-3", "mixed-1", "mixed-2", "alpha"} {
		d.expect(t, map[string]string{nameOf(name): fmt.Sprintf("10.0.0.%d", i+1)})
	}
}

func TestOnlyManifestFilesAreRead(t *testing.T) {
	d := serveManifests(t, map[string][]byte{
		"a.yaml": vipYAML("a", "10.0.0.1"), "a.yaml~": vipYAML("tilde", "10.0.0.2"), ".hidden.yaml": vipYAML("hidden", "10.0.0.3"),
		"README.md": vipYAML("text", "10.0.0.4"), "sub/b.yaml": vipYAML("sub", "10.0.0.5"), "dir.yaml/c.yaml": vipYAML("dir", "10.0.0.6"),
	})
	d.log.expect(t, "dir.yaml", "not a regular file")
	want := map[string]string{nameOf("a"): "10.0.0.1"}
	for _, name := range []string{"tilde", "hidden", "text", "sub", "dir"} {
		want[nameOf(name)] = "NXDOMAIN"
	}
	d.expect(t, want)
}

// The kubelet updates a mounted ConfigMap by moving one symbolic link. The names in the directory stay the same: they are links
// through that link.
func TestAConfigMapIsFollowed(t *testing.T) {
	d := serveManifests(t, nil)
	revision := func(name string, modified time.Time, files map[string][]byte) {
		t.Helper()
		for file, data := range files {
			path := filepath.Join(d.dir, name, file)
			writeFile(t, path, data)
			if err := os.Chtimes(path, modified, modified); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []func() error{
			func() error { return os.Symlink(name, filepath.Join(d.dir, "..data_tmp")) },
			func() error { return os.Rename(filepath.Join(d.dir, "..data_tmp"), filepath.Join(d.dir, "..data")) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	revision("..1", now, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1"), "b.yaml": vipYAML("b", "10.0.1.1")})
	for _, file := range []string{"a.yaml", "b.yaml"} {
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(d.dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
	stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1", "10.0.0.2", "10.0.0.3"}, nameOf("b"): {"10.0.1.1", "10.0.1.2", "10.0.1.3"}})
	revision("..2", now.Add(time.Second), map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.2"), "b.yaml": vipYAML("b", "10.0.1.2")})
	d.remove(t, "..1")
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2", nameOf("b"): "10.0.1.2"})
	// Container images, git-sync and similar tools give all files the same time, so neither the time nor the size distinguishes
	// versions.
	revision("..3", now.Add(time.Second), map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.3"), "b.yaml": vipYAML("b", "10.0.1.3")})
	d.remove(t, "..2")
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.3", nameOf("b"): "10.0.1.3"})
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

func TestManifestReloadsLeaveNoGoroutineBehind(t *testing.T) {
	d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1")})
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1"})
	before, _ := takeCensus()
	stop := d.askAlong(t, map[string][]string{nameOf("a"): {"10.0.0.1"}})
	corefile := string(d.instance.Caddyfile().Body())
	for i := range reloads {
		if err := d.reload(corefile); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	stop()
	expectCensus(t, before)
	d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2"})
}

// A reload reads the files anew, but what is broken stays broken: its last good state is served on.
func TestAReloadKeepsTheLastGoodStateOfABrokenFile(t *testing.T) {
	d := serveManifests(t, map[string][]byte{"a.yaml": vipYAML("a", "10.0.0.1"), "b.yaml": vipYAML("b", "10.0.1.1")})
	corefile := func(ttl int) string {
		return withSource(fmt.Sprintf(".:0 {\n    bind 127.0.0.1\n    clusterset clusterset.local svc.global {\n        ttl %d\n    }\n}\n", ttl), "manifests "+d.dir)
	}
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"})
	d.write(t, "a.yaml", []byte("kind: [\n"))
	d.log.expect(t, "what a.yaml last held is still served")
	for ttl := range 3 { // of each reload, the one before is the running server
		if err := d.reload(corefile(ttl)); err != nil {
			t.Fatal(err)
		}
		for question, want := range map[string]string{nameOf("a"): "10.0.0.1", nameOf("b"): "10.0.1.1"} {
			if got, err := askAt(listening(d.instance)[0].LocalAddr().String(), question); err != nil || got != want {
				t.Errorf("after reload %d: dig %s: got %s, %v, want %s", ttl, question, got, err, want)
			}
		}
	}
	d.udp = listening(d.instance)[0].LocalAddr().String()
	d.write(t, "a.yaml", vipYAML("a", "10.0.0.2"))
	d.expect(t, map[string]string{nameOf("a"): "10.0.0.2"})
	d.remove(t, "b.yaml")
	d.expect(t, map[string]string{nameOf("b"): "NXDOMAIN"})
}
