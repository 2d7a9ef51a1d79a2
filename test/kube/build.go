package kube

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/clusterset/clusterset/test/process"
)

// Binaries are the paths of the control plane's programs, and of kube-proxy. ControllerManager and Proxy are empty unless
// [WithControllerManager] and [IncludeProxy] were given.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Proxy             string
}

// Release is one of the pinned releases of Kubernetes. Empty means the one in CLUSTERSET_KUBE_RELEASE, or the newest if that isn't set.
type Release string

// The pinned releases: the newest that is tested, and the oldest that is supported.
const (
	Newest Release = "newest"
	Oldest Release = "oldest"
)

const releaseEnv = "CLUSTERSET_KUBE_RELEASE"

// folder returns the folder of the module that pins the release.
func (r Release) folder() (string, error) {
	if r == "" {
		r = Release(os.Getenv(releaseEnv))
	}
	switch r {
	case "", Newest:
		return "controlplane", nil
	case Oldest:
		return "oldest", nil
	default:
		return "", fmt.Errorf("release %q of Kubernetes: want oldest or newest", r)
	}
}

// Build compiles the control plane's programs unless they are cached, and returns their paths. If packages are tested in parallel, one of them
// builds and the others wait for it. The cache key covers everything that determines the result, so a new version in a go.mod is built again and
// an old checkout still finds its own.
func Build(ctx context.Context, opts ...Option) (Binaries, error) {
	o := newOptions(opts)
	newest, err := readSource(Newest)
	if err != nil {
		return Binaries{}, fmt.Errorf("build control plane: %w", err)
	}
	src, err := readSource(o.release)
	if err != nil {
		return Binaries{}, fmt.Errorf("build control plane: %w", err)
	}

	b := Binaries{Etcd: newest.program("etcd"), APIServer: src.program("kube-apiserver")}
	targets := []target{
		{newest, b.Etcd, "go.etcd.io/etcd/server/v3", "half a minute"},
		{src, b.APIServer, "k8s.io/kubernetes/cmd/kube-apiserver", "3 to 10 minutes"},
	}
	if o.controllerManager {
		b.ControllerManager = src.program("kube-controller-manager")
		targets = append(targets, target{src, b.ControllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager", "1 to 3 minutes more"})
	}
	if o.proxy {
		b.Proxy = newest.program("kube-proxy")
		targets = append(targets, target{newest, b.Proxy, "k8s.io/kubernetes/cmd/kube-proxy", "1 to 2 minutes more"})
	}
	for _, t := range targets {
		if err := t.source.build(ctx, t, o.progress); err != nil {
			return Binaries{}, fmt.Errorf("build %s (go run ./test/kube/build does so ahead of the tests): %w", t.pkg, err)
		}
	}
	return b, nil
}

// target is one program: the module that pins it, its path, its package, and roughly how long its build takes on two cores with nothing cached.
type target struct {
	source           source
	path, pkg, takes string
}

// source is a module that pins programs, with everything that determines the result of their builds.
type source struct {
	dir     string // the folder of the module
	version string // of k8s.io/kubernetes, "v1.37.2"
	key     string // hash of the pins, the compiler and its flags
	bin     string // the folder of its programs
}

// program returns the path of one of the source's programs.
func (s source) program(name string) string { return filepath.Join(s.bin, name) }

func readSource(r Release) (source, error) {
	folder, err := r.folder()
	if err != nil {
		return source{}, err
	}
	dir, err := moduleDir(folder)
	if err != nil {
		return source{}, err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return source{}, fmt.Errorf("read control plane pins: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return source{}, fmt.Errorf("read control plane pins: %w", err)
	}
	m := kubernetesPin.FindSubmatch(mod)
	if m == nil {
		return source{}, fmt.Errorf("read control plane pins: %s requires no release of k8s.io/kubernetes", filepath.Join(dir, "go.mod"))
	}
	s := source{dir: dir, version: string(m[1])}

	// Quoted, so that no two lists of parts give the same string.
	parts := append([]string{string(mod), string(sum), runtime.Version(), runtime.GOOS, runtime.GOARCH}, s.flags()...)
	hash := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	s.key = fmt.Sprintf("%x", hash[:8])
	s.bin, err = s.binDir()
	return s, err
}

var kubernetesPin = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b`)

// moduleDir finds a module that pins programs, in the folders above the working
// directory: a binary built with -trimpath doesn't know the path of this file.
func moduleDir(folder string) (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", folder, err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		module := filepath.Join(dir, "test", "kube", folder)
		if exists(filepath.Join(module, "go.mod")) {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find module %[1]s: no test/kube/%[1]s/go.mod above %[2]s", folder, wd)
		}
	}
}

// flags returns the go build flags, without the package. Without DWARF a cold build is about 15% faster and takes 20% less of the build cache.
func (s source) flags() []string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(s.version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	ld := []string{"-s", "-w"}
	// Without a version the API server reports v0.0.0-master, and can't tell which of its APIs and feature gates apply.
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range []string{"gitVersion=" + s.version, "gitMajor=" + major, "gitMinor=" + minor} {
			ld = append(ld, "-X", pkg+"."+kv)
		}
	}
	return []string{"-mod=readonly", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags=" + strings.Join(ld, " ")}
}

// binDir returns the folder for this source's programs.
func (s source) binDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(cache, "clusterset", "kube", s.key), nil
}

// build makes one program. It builds under another name and renames the result,
// so others see a complete file or none, even if the build is interrupted.
func (s source) build(ctx context.Context, t target, progress io.Writer) error {
	if exists(t.path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o755); err != nil {
		return err
	}
	name := filepath.Base(t.path)
	say := func(format string, args ...any) {
		// A failed report doesn't matter to the build.
		_, _ = fmt.Fprintf(progress, "kube: "+format+"\n", args...)
	}
	unlock, err := lockFile(ctx, t.path+".lock", func() {
		say("another process is compiling %s, waiting for it", name)
	})
	if err != nil {
		return err
	}
	defer unlock()
	if exists(t.path) {
		return nil // by another process, while this one waited for the lock
	}

	say("compiling %s (Kubernetes %s); the first time takes %s on two cores, then it is cached", name, s.version, t.takes)
	start := time.Now()
	tmp := t.path + ".tmp"
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, s.flags()...), "-o", tmp, t.pkg)...)
	cmd.Dir = s.dir
	// The programs run here, even if the caller cross-compiles, and are built in their own module, even if the caller uses a workspace or flags.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	out, err := process.CombinedOutput(cmd)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped after %s: %w", time.Since(start).Round(time.Second), context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	if err := os.Rename(tmp, t.path); err != nil {
		return err
	}
	say("compiled %s in %s", name, time.Since(start).Round(time.Second))
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
