package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const testVersion = "v0.0.0-test"

// wantStatic fails the test for a binary that needs a dynamic loader, because the image has none.
func wantStatic(t *testing.T, path string) {
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

// The same binaries make the same image, at any time and in any folder: nothing of the machine gets in.
func TestImageIsReproducible(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		dir := fakeBinaries(t)
		if err := os.Chmod(filepath.Join(dir, "linux-amd64", "coredns"), 0o700); i == 1 && err != nil {
			t.Fatal(err)
		}
		archives[i] = read(t, pack(t, dir))
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two runs over the same binaries differ")
	}
}

// One archive contains the images of all architectures, each with its own binaries. None of them runs as root.
func TestArchitectures(t *testing.T) {
	archive := pack(t, fakeBinaries(t))
	all := images(t, archive)
	if len(all) != 2 {
		t.Fatalf("architectures: %v", all)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		root := t.TempDir()
		c := unpack(t, all[arch], root)
		if c.OS != "linux" || c.Architecture != arch || c.Config.User != user || strings.HasPrefix(c.Config.User, "0") ||
			strings.Join(c.Config.Entrypoint, " ") != "/clusterset" || len(c.History) != len(programs(platform{linux, arch}))+1 {
			t.Errorf("configuration for %s: %+v", arch, c)
		}
		if got := string(read(t, filepath.Join(root, "clusterset"))); got != "clusterset for "+arch {
			t.Errorf("the image for %s holds %q", arch, got)
		}
	}
}

func TestSourceDate(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	all := images(t, pack(t, fakeBinaries(t)))
	if c := unpack(t, all["amd64"], t.TempDir()); c.Created.Unix() != 1790000000 {
		t.Errorf("created %v", c.Created)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(t.Context(), []string{"-version", testVersion, "-image", "unwritten.tar"}, io.Discard); err == nil || !strings.Contains(err.Error(), "want seconds since 1970") {
		t.Error(err)
	}
}

// pack makes an image of binaries that already exist.
func pack(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist", "clusterset.tar")
	if err := run(t.Context(), []string{"-image", out, "-binaries", dir, "-version", testVersion}, io.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

func fakeBinaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		for _, name := range programs(platform{linux, arch}) {
			write(t, filepath.Join(dir, "linux-"+arch, name), name+" for "+arch)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// images returns an archive's images by architecture, after checking the OCI layout and the image's name.
func images(t *testing.T, archive string) map[string]v1.Image {
	t.Helper()
	dir := t.TempDir()
	command(t, dir, "tar", "-xf", archive)
	top, err := layout.ImageIndexFromPath(dir)
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
	names := manifest.Manifests[0].Annotations
	if len(manifest.Manifests) != 1 || names["org.opencontainers.image.ref.name"] != testVersion ||
		names["io.containerd.image.name"] != "docker.io/clusterset/clusterset:"+testVersion {
		t.Fatalf("index.json: %+v", manifest)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]v1.Image{}
	for _, d := range list.Manifests {
		if all[d.Platform.Architecture], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// unpack extracts an image's layers into dir, one on top of the other, as a runtime does. It returns the image's configuration.
func unpack(t *testing.T, image v1.Image, dir string) *v1.ConfigFile {
	t.Helper()
	c, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		archive, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		eachFile(t, archive, func(h *tar.Header, content []byte) {
			mode := int64(0o755)
			if strings.HasPrefix(h.Name, "licenses/") {
				mode = 0o644
			}
			if h.Uid != 0 || h.Gid != 0 || h.Mode != mode || !h.ModTime.Equal(c.Created.Time) || h.Uname != "" {
				t.Errorf("%s is of %d:%d, mode %o, from %s", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime.Format(time.RFC3339))
			}
			path := filepath.Join(dir, h.Name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, h.FileInfo().Mode())); err != nil {
				t.Fatal(err)
			}
		})
	}
	return c
}

func eachFile(t *testing.T, r io.Reader, f func(*tar.Header, []byte)) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		f(h, content)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
