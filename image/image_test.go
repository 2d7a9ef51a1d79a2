package main

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const testVersion = "v0.0.0-test"

// The image of this machine's architecture holds both binaries, they run, and nothing else has to be there.
func TestImage(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("compiles CoreDNS, and starts what it has compiled for Linux")
	}
	t.Chdir("..") // where `go run ./image` is run
	out := filepath.Join(t.TempDir(), "clusterset.tar")
	if err := run(t.Context(), []string{"-o", out, "-arch", runtime.GOARCH, "-version", testVersion}, io.Discard); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	l := readLayout(t, out)
	l.unpack(t, l.platforms(t)[0], root)
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"coredns":    {[]string{"-version", "-plugins"}, []string{"CoreDNS-1.", testVersion, "\nclusterset\n"}},
		"clusterset": {[]string{"version"}, []string{"clusterset " + testVersion}},
	} {
		path := filepath.Join(root, name)
		static(t, path)
		for _, args := range c.args {
			cmd := exec.Command(path, args)
			cmd.Env = []string{} // an image has none
			output, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s %s: %v\n%s", name, args, err, output)
			}
			c.says = missing(c.says, string(output))
		}
		if len(c.says) > 0 {
			t.Errorf("%s says nothing of %q", name, c.says)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != len(binaries) {
		t.Errorf("the image holds %v, %v", entries, err)
	}
}

func missing(want []string, in string) []string {
	var left []string
	for _, s := range want {
		if !strings.Contains(in, s) {
			left = append(left, s)
		}
	}
	return left
}

// static fails for a binary that needs a loader, which isn't in the image.
func static(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", path)
		}
	}
}

// The same binaries make the same image, whenever and from whichever folder: nothing of the machine gets in.
func TestImageIsReproducible(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		dir := fakeBinaries(t, "amd64", "arm64")
		if err := os.Chmod(filepath.Join(dir, "amd64", "coredns"), 0o700); i == 1 && err != nil {
			t.Fatal(err)
		}
		archives[i] = read(t, pack(t, dir))
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two runs over the same binaries differ")
	}
}

// One archive has the images of all architectures, each with its own binaries, and runs them as nobody in particular.
func TestArchitectures(t *testing.T) {
	l := readLayout(t, pack(t, fakeBinaries(t, "amd64", "arm64")))
	platforms := l.platforms(t)
	if len(platforms) != 2 {
		t.Fatalf("platforms: %v", platforms)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if *platforms[i].Platform != (platform{arch, "linux"}) {
			t.Errorf("platform %d is %v", i, platforms[i].Platform)
		}
		root := t.TempDir()
		c := l.unpack(t, platforms[i], root)
		if c.platform != (platform{arch, "linux"}) || c.Config.User != user || strings.HasPrefix(c.Config.User, "0") {
			t.Errorf("configuration for %s: %+v", arch, c)
		}
		if got := string(read(t, filepath.Join(root, "clusterset"))); got != "clusterset for "+arch {
			t.Errorf("the image for %s holds %q", arch, got)
		}
	}
	docker := l.docker(t)
	if len(docker) != 1 || docker[0].RepoTags[0] != "clusterset/clusterset:"+testVersion || len(docker[0].Layers) != len(binaries) {
		t.Errorf("manifest.json: %+v", docker)
	}
	for _, name := range append(docker[0].Layers, docker[0].Config) {
		if l[name] == nil {
			t.Errorf("manifest.json names %s, which isn't there", name)
		}
	}
}

func TestSourceDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	l := readLayout(t, pack(t, fakeBinaries(t, "amd64", "arm64")))
	if c := l.unpack(t, l.platforms(t)[0], t.TempDir()); c.Created.Unix() != 1790000000 {
		t.Errorf("created %v", c.Created)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(t.Context(), []string{"-version", testVersion}, io.Discard); err == nil || !strings.Contains(err.Error(), "want seconds since 1970") {
		t.Error(err)
	}
}

// The Dockerfile makes the same image by other means.
func TestDockerfile(t *testing.T) {
	dockerfile := string(read(t, "Dockerfile"))
	for _, want := range []string{
		`-ldflags "` + ldflags("$VERSION") + `"`, "CGO_ENABLED=0", "-trimpath -buildvcs=false", "FROM scratch\n",
		"USER " + user + "\n", "ENV PATH=/\n", "WORKDIR /\n", `ENTRYPOINT ["/clusterset"]`,
	} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("Dockerfile has no %q", want)
		}
	}
}

// The Dockerfile is given every package that the binaries are made of.
func TestDockerignore(t *testing.T) {
	var given []string
	for line := range strings.Lines(string(read(t, "../.dockerignore"))) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			given = append(given, path)
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf(".dockerignore lets in what isn't there: %v", err)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./cmd/coredns", "./cmd/clusterset")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := append(strings.Fields(string(out)), "go.mod", "go.sum")
	if len(needed) < 10 {
		t.Fatalf("the binaries are made of %q", needed)
	}
	for _, path := range needed {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "github.com/clusterset/clusterset/"), "/")
		if !slices.Contains(given, top) {
			t.Errorf(".dockerignore keeps %s from the Dockerfile", path)
		}
	}
}

// pack makes an image of binaries that are there.
func pack(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist", "clusterset.tar")
	if err := run(t.Context(), []string{"-o", out, "-binaries", dir, "-version", testVersion}, io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func fakeBinaries(t *testing.T, architectures ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, arch := range architectures {
		if err := os.MkdirAll(filepath.Join(dir, arch), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range binaries {
			if err := os.WriteFile(filepath.Join(dir, arch, name), []byte(name+" for "+arch), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
