package main

import (
	"bytes"
	"debug/buildinfo"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/registry"
	"golang.org/x/mod/modfile"
	modzip "golang.org/x/mod/zip"
	"sigs.k8s.io/yaml"

	modmodule "golang.org/x/mod/module"
)

// A release for this machine's platform has files that match their names and have the same version. They are identical if they are built in
// another folder with other settings. A registry accepts the image and the chart as `make push` pushes them.
func TestRelease(t *testing.T) {
	if testing.Short() || runtime.GOOS != linux {
		t.Skip("compiles CoreDNS, and starts what it has compiled for Linux")
	}
	dist := t.TempDir()
	args := []string{"-version", testVersion, "-platforms", linux + "/" + runtime.GOARCH, "-o"}
	if err := run(t.Context(), append(args, dist), t.Output()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(dist, testVersion)
	t.Run("checksums", func(t *testing.T) { verifySums(t, dir) })
	t.Run("versions agree", func(t *testing.T) { sayTheirVersion(t, dir) })
	t.Run("chart", func(t *testing.T) { stamped(t, dir) })
	t.Run("SBOM", func(t *testing.T) { listsModules(t, dir) })
	t.Run("notes", func(t *testing.T) {
		if text := string(read(t, filepath.Join(dir, "RELEASE_NOTES.md"))); !strings.HasPrefix(text, "# clusterset "+testVersion+"\n\n") || !strings.Contains(text, "clusterset:"+testVersion+"@sha256:") {
			t.Errorf("RELEASE_NOTES.md begins %.200q", text)
		}
	})
	t.Run("push", func(t *testing.T) { push(t, dist) })
	t.Run("reproducible", func(t *testing.T) {
		if os.Getenv("CLUSTERSET_LONG") == "" {
			t.Skip("compiles everything again: part of make test-long; a release is made on two machines and compared")
		}
		sources, again := copySources(t), t.TempDir()
		program := filepath.Join(t.TempDir(), "release")
		command(t, ".", "go", "build", "-o", program, ".")
		cmd := exec.CommandContext(t.Context(), program, append(args, again)...)
		cmd.Dir = filepath.Join(sources, "image")
		cmd.Env = append(os.Environ(), "GOAMD64=v2", "GOFLAGS=-buildvcs=false -tags=somebodys", "TZ=Asia/Tokyo", "TMPDIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		first, second := read(t, filepath.Join(dir, "SHA256SUMS")), read(t, filepath.Join(again, testVersion, "SHA256SUMS"))
		if !bytes.Equal(first, second) {
			t.Errorf("made twice, the files differ:\n%s\n%s", first, second)
		}
	})
}

// verifySums checks the files as a user would.
func verifySums(t *testing.T, dir string) {
	out := command(t, dir, "sha256sum", "--strict", "-c", "SHA256SUMS")
	want := []string{
		"RELEASE_NOTES.md", "SHA256SUMS", noticesFile, "clusterset-0.0.0-test.tgz", "clusterset-chart.tar", "clusterset-image.tar",
		"clusterset-linux-" + runtime.GOARCH + ".tar.gz", "clusterset-sbom.cdx.json",
	}
	for _, name := range want {
		if name != "SHA256SUMS" && !strings.Contains(out, name+": OK") {
			t.Errorf("SHA256SUMS doesn't list %s", name)
		}
	}
	if have := strings.Fields(command(t, dir, "env", "LC_ALL=C", "ls")); !slices.Equal(have, want) {
		t.Errorf("the release has the files %q, want %q", have, want)
	}
}

// sayTheirVersion runs the programs in the image, and those outside it, without an environment.
func sayTheirVersion(t *testing.T, dir string) {
	root := t.TempDir()
	config := unpack(t, images(t, filepath.Join(dir, "clusterset-image.tar"))[runtime.GOARCH], root)
	if config.Config.Labels["org.opencontainers.image.version"] != testVersion {
		t.Errorf("labels of the image: %v", config.Config.Labels)
	}
	for _, c := range []struct{ path, arg, says string }{
		{filepath.Join(root, "coredns"), "-version", "clusterset-" + testVersion},
		{filepath.Join(root, "coredns"), "-plugins", "\nclusterset\n"},
		{filepath.Join(root, "clusterset"), "--version", "clusterset " + testVersion + " "},
		{commandLineIn(t, filepath.Join(dir, "clusterset-linux-"+runtime.GOARCH+".tar.gz")), "--version", "clusterset " + testVersion + " "},
	} {
		wantStatic(t, c.path)
		cmd := exec.CommandContext(t.Context(), c.path, c.arg)
		cmd.Env = []string{} // an image has no environment
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s %s: %v, want %q in\n%s", filepath.Base(c.path), c.arg, err, c.says, out)
		}
	}
	if files, err := os.ReadDir(root); err != nil || len(files) != len(programs(platform{linux, ""}))+1 {
		t.Errorf("the image holds %v, %v", files, err)
	}
	if !bytes.Equal(read(t, filepath.Join(root, "licenses", noticesFile)), read(t, filepath.Join(dir, noticesFile))) {
		t.Errorf("the image and the release have different %s", noticesFile)
	}
	read(t, filepath.Join(root, "licenses", "LICENSE"))
}

// commandLineIn unpacks the archive of the command line and returns the program's path.
func commandLineIn(t *testing.T, archive string) string {
	t.Helper()
	to := t.TempDir()
	if names := strings.Fields(command(t, to, "tar", "-xzvf", archive)); !slices.Equal(names, []string{"LICENSE", noticesFile, "clusterset"}) {
		t.Errorf("%s holds %q", filepath.Base(archive), names)
	}
	return filepath.Join(to, "clusterset")
}

// stamped checks that the archived chart equals the chart, except for its version and for what .helmignore excludes.
func stamped(t *testing.T, dir string) {
	to := t.TempDir()
	command(t, to, "tar", "-xzf", filepath.Join(dir, "clusterset-0.0.0-test.tgz"))
	for _, name := range []string{"values.yaml", "values.schema.json", "templates/_pod.tpl", "files/rules.yaml"} {
		read(t, filepath.Join(to, "clusterset", name))
	}
	out, _ := exec.CommandContext(t.Context(), "diff", "-rq", filepath.Join(to, "clusterset"), chartDir).CombinedOutput()
	differ := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool { return strings.HasPrefix(line, "Only in "+chartDir) })
	if len(differ) != 1 || !strings.HasPrefix(differ[0], "Files "+filepath.Join(to, "clusterset", "Chart.yaml")+" ") {
		t.Errorf("the archive differs from the chart in more than Chart.yaml: %q", differ)
	}
	var about struct{ Name, Version, AppVersion string }
	if err := yaml.Unmarshal(read(t, filepath.Join(to, "clusterset", "Chart.yaml")), &about); err != nil || about.Name != "clusterset" || about.Version != "0.0.0-test" || about.AppVersion != testVersion {
		t.Errorf("Chart.yaml: %+v, %v", about, err)
	}
}

// A Chart.yaml says what Artifact Hub shows: the image, whether it is a prerelease, and the chart's own kinds. It ignores an annotation that isn't
// valid YAML, and says so only to the chart's owner. A Chart.yaml that lost a line is refused.
func TestStamp(t *testing.T) {
	content := read(t, filepath.Join(chartDir, "Chart.yaml"))
	for version, wants := range map[string][]string{
		"v1.2.3":    {"\nversion: 1.2.3\n", "\nappVersion: v1.2.3\n", "/prerelease: \"false\"\n", " image: example.com/clusterset:v1.2.3\n"},
		testVersion: {"\nversion: 0.0.0-test\n", "/prerelease: \"true\"\n"},
	} {
		got, err := stamp(content, options{version: version, name: "example.com/clusterset"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if strings.Count(string(got), want) != 1 {
				t.Errorf("%q isn't there once:\n%s", want, got)
			}
		}
	}
	if _, err := stamp(bytes.Replace(content, []byte("appVersion"), []byte("app"), 1), options{version: "v1.2.3"}); err == nil || !strings.Contains(err.Error(), "0 lines appVersion:") {
		t.Error(err)
	}
	var about struct{ Annotations map[string]string }
	if err := yaml.Unmarshal(content, &about); err != nil {
		t.Fatal(err)
	}
	type named struct{ Name, Image, URL string }
	var listed []named
	for _, key := range []string{"images", "links", "crds"} { // the kinds last
		listed = nil
		if err := yaml.Unmarshal([]byte(about.Annotations["artifacthub.io/"+key]), &listed); err != nil || len(listed) == 0 {
			t.Fatalf("artifacthub.io/%s: %+v, %v", key, listed, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "api", "crds", "*.yaml"))
	if err != nil || len(files) != len(listed) {
		t.Errorf("artifacthub.io/crds lists %d kinds; api/crds has %d files, %v", len(listed), len(files), err)
	}
	for _, file := range files {
		group, plural, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
		if !slices.ContainsFunc(listed, func(n named) bool { return n.Name == plural+"."+group }) {
			t.Errorf("artifacthub.io/crds doesn't list %s.%s", plural, group)
		}
	}
}

// listsModules checks the SBOM against go.mod, and against the modules that the linker recorded in each program.
func listsModules(t *testing.T, dir string) {
	var b cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, filepath.Join(dir, "clusterset-sbom.cdx.json"))), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range *b.Components {
		if c.Licenses == nil || len(*c.Licenses) == 0 {
			t.Errorf("%s has no licence", c.BOMRef)
		}
	}
	refs := map[string][]string{}
	for _, d := range *b.Dependencies {
		refs[d.Ref] = *d.Dependencies
	}
	root := t.TempDir()
	unpack(t, images(t, filepath.Join(dir, "clusterset-image.tar"))[runtime.GOARCH], root)
	main := mainModule(t)
	for _, c := range []struct{ program, with, without string }{
		{"coredns", "github.com/miekg/dns", "sigs.k8s.io/controller-runtime"},
		{"clusterset", "sigs.k8s.io/controller-runtime", "github.com/miekg/dns"},
	} {
		parts := refs["pkg:golang/"+module+"@"+testVersion+"#cmd/"+c.program]
		i := slices.IndexFunc(main.Require, func(r *modfile.Require) bool { return r.Mod.Path == c.with })
		if want := "pkg:golang/" + c.with + "@" + main.Require[i].Mod.Version; !slices.Contains(parts, want) {
			t.Errorf("%s isn't said to hold %s", c.program, want)
		}
		if slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "pkg:golang/"+c.without+"@") }) {
			t.Errorf("%s is said to hold %s", c.program, c.without)
		}
		if preact := slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "pkg:npm/preact@") }); preact != (c.program == console) {
			t.Errorf("%s is said to hold preact: %v", c.program, preact)
		}
		info, err := buildinfo.ReadFile(filepath.Join(root, c.program))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			if ref := purl(m.Path, m.Version, ""); !slices.Contains(parts, ref) {
				t.Errorf("%s holds %s, which the SBOM doesn't list", c.program, ref)
			}
		}
		if std := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"); !slices.Contains(parts, std) {
			t.Errorf("%s isn't said to hold %s", c.program, std)
		}
	}
}

// push pushes to a registry with `make push`, and checks that the registry then has what the release has.
func push(t *testing.T, dist string) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(t.Output(), "registry: ", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://") + "/clusterset"
	command(t, root, "make", "--no-print-directory", "push", "VERSION="+testVersion, "DIST="+dist, "REGISTRY="+host)
	listed := command(t, ".", "go", "tool", "crane", "manifest", host+"/clusterset:"+testVersion)
	if !strings.Contains(listed, `"architecture":"`+runtime.GOARCH+`"`) {
		t.Errorf("the image in the registry: %s", listed)
	}
	to := t.TempDir()
	command(t, filepath.Join(root, "test", "docs", "commands"), "go", "run", "helm.sh/helm/v4/cmd/helm", "pull", "oci://"+host+"/chart", "--version", "0.0.0-test", "--plain-http", "-d", to)
	pulled, err := filepath.Glob(filepath.Join(to, "*.tgz"))
	if err != nil || len(pulled) != 1 || !bytes.Equal(read(t, pulled[0]), read(t, filepath.Join(dist, testVersion, "clusterset-0.0.0-test.tgz"))) {
		t.Errorf("helm pulled %q, %v, which isn't the chart", pulled, err)
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// copySources copies the sources of a release into another folder, which isn't under version control.
func copySources(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	command(t, root, "bash", "-o", "pipefail", "-c", `ls -A | grep -vxE '\.git|bin|dist|test|docs' | xargs -I{} cp -R {} "$0"`, to)
	return to
}

// `go install …/cmd/clusterset@v1.2.3` and …/cmd/coredns@v1.2.3 work. The go command refuses a module that replaces or excludes others. It
// has only the files in the module's archive, which contains no nested modules.
func TestGoInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles CoreDNS")
	}
	if m := mainModule(t); len(m.Replace)+len(m.Exclude) > 0 {
		t.Errorf("go.mod replaces %d modules and excludes %d; then `go install …@version` refuses", len(m.Replace), len(m.Exclude))
	}
	version := modmodule.Version{Path: module, Version: "v0.0.0-test"}
	dir := t.TempDir()
	var archive bytes.Buffer
	if err := modzip.CreateFromDir(&archive, version, copySources(t)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "module.zip"), archive.String())
	if err := modzip.Unzip(filepath.Join(dir, "module"), version, filepath.Join(dir, "module.zip")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", dir, "./cmd/clusterset", "./cmd/coredns")
	cmd.Dir = filepath.Join(dir, "module")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func mainModule(t *testing.T) *modfile.File {
	t.Helper()
	m, err := modfile.Parse("go.mod", read(t, filepath.Join(root, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
