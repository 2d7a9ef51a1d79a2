package interop

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The archive is a valid OCI layout of one image index for two architectures, and a valid image for docker.
func TestArchiveIsValid(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"amd64/coredns", "amd64/clusterset", "arm64/coredns", "arm64/clusterset"} {
		path := filepath.Join(dir, "binaries", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, "clusterset.tar")
	cmd := exec.Command("go", "run", "./image", "-o", archive, "-version", "v1", "-binaries", filepath.Join(dir, "binaries"))
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go run ./image: %v\n%s", err, out)
	}

	top, err := layout.ImageIndexFromPath(unpack(t, archive, filepath.Join(dir, "layout")))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := all.IndexManifest()
	if err != nil || len(images.Manifests) != 2 {
		t.Fatalf("%+v, %v", images, err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		image, err := all.Image(images.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, image, arch)
	}

	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("as docker sees it: %v", err)
	}
}

func expect(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != arch || config.OS != "linux" || config.Config.User != "65532:65532" ||
		strings.Join(config.Config.Entrypoint, " ") != "/clusterset" || len(config.RootFS.DiffIDs) != 2 || len(config.History) != 2 {
		t.Errorf("configuration for %s: %+v", arch, config)
	}
}

func unpack(t *testing.T, archive, dir string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
