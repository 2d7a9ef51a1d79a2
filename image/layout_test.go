package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// layout is an archive's files by name.
type layout map[string][]byte

func readLayout(t *testing.T, path string) layout {
	t.Helper()
	l := make(layout)
	eachFile(t, bytes.NewReader(read(t, path)), func(h *tar.Header, content []byte) { l[h.Name] = content })
	if string(l["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", l["oci-layout"])
	}
	return l
}

// platforms returns the descriptors of the images of all architectures.
func (l layout) platforms(t *testing.T) []descriptor {
	t.Helper()
	var top, all index
	decode(t, l["index.json"], &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != testVersion {
		t.Fatalf("index.json: %+v", top)
	}
	decode(t, l.blob(t, top.Manifests[0]), &all)
	return all.Manifests
}

func (l layout) docker(t *testing.T) (entries []dockerEntry) {
	t.Helper()
	decode(t, l["manifest.json"], &entries)
	return entries
}

// blob returns what a descriptor names, if it is what the descriptor says.
func (l layout) blob(t *testing.T, d descriptor) []byte {
	t.Helper()
	content := l["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if int64(len(content)) != d.Size || digestOf(content) != d.Digest {
		t.Fatalf("%s: %d bytes with digest %s", d.Digest, len(content), digestOf(content))
	}
	return content
}

// unpack lays an image's layers on top of each other in dir, as a runtime does, and returns its configuration.
func (l layout) unpack(t *testing.T, image descriptor, dir string) config {
	t.Helper()
	var m manifest
	var c config
	decode(t, l.blob(t, image), &m)
	decode(t, l.blob(t, m.Config), &c)
	if len(m.Layers) != len(c.RootFS.DiffIDs) {
		t.Fatalf("%d layers, %d diff IDs", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	for i, d := range m.Layers {
		z, err := gzip.NewReader(bytes.NewReader(l.blob(t, d)))
		if err != nil {
			t.Fatal(err)
		}
		archive, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if digestOf(archive) != c.RootFS.DiffIDs[i] {
			t.Errorf("layer %d has another diff ID", i)
		}
		eachFile(t, bytes.NewReader(archive), func(h *tar.Header, content []byte) {
			if h.Uid != 0 || h.Gid != 0 || h.Mode != 0o755 || !h.ModTime.Equal(c.Created) || h.Uname != "" {
				t.Errorf("%s is of %d:%d, mode %o, from %s", h.Name, h.Uid, h.Gid, h.Mode, h.ModTime.Format(time.RFC3339))
			}
			if err := os.WriteFile(filepath.Join(dir, h.Name), content, h.FileInfo().Mode()); err != nil {
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

func decode(t *testing.T, content []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
}
