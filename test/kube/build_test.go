package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
)

func TestTheAPIServerKnowsItsVersion(t *testing.T) {
	src, err := readSource("")
	if err != nil {
		t.Fatal(err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	v, err := disco.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if v.GitVersion != src.version || !strings.HasPrefix(src.version, "v"+v.Major+"."+v.Minor+".") {
		t.Errorf("the API server calls itself %s (major %q, minor %q), want %s", v.GitVersion, v.Major, v.Minor, src.version)
	}
}

func TestBuildUsesTheProgramsItIsGiven(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(binEnv, dir)
	var said strings.Builder
	b, err := Build(t.Context(), BuildProgress(&said))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Binaries{Etcd: filepath.Join(dir, "etcd"), APIServer: filepath.Join(dir, "kube-apiserver")}); b != want {
		t.Errorf("got %v, want %v", b, want)
	}
	b, err = Build(t.Context(), BuildProgress(&said), IncludeControllerManager())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "kube-controller-manager"); b.ControllerManager != want {
		t.Errorf("got %s, want %s", b.ControllerManager, want)
	}
	b, err = Build(t.Context(), BuildProgress(&said), IncludeProxy())
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "kube-proxy"); b.Proxy != want {
		t.Errorf("got %s, want %s", b.Proxy, want)
	}
	if said.Len() > 0 {
		t.Errorf("nothing was to be built, but it said: %s", &said)
	}
}

func TestBuildGivesUpWithItsContext(t *testing.T) {
	t.Setenv(binEnv, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it canceled", err)
	}
}

func TestLockFileWaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, func() { t.Error("nobody held the lock") })
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	// Cancel as soon as it reports that it waits.
	if _, err := lockFile(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it canceled", err)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	again, err := lockFile(ctx, path, unlock)
	if err != nil {
		t.Fatalf("lock after its holder let go: %v", err)
	}
	again()
}
