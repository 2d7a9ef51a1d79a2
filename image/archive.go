package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writeArchive writes the layout. The file appears when it is complete.
func writeArchive(path string, images []image, o options) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where all went well
	err = errors.Join(writeLayout(f, images, o), f.Chmod(0o644), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

func writeLayout(out io.Writer, images []image, o options) error {
	all := index{SchemaVersion: 2, MediaType: typeIndex, Annotations: annotations(o)}
	var blobs []blob
	for _, img := range images {
		d := describeBlob(typeManifest, img.manifest)
		d.Platform = &platform{Architecture: img.arch, OS: "linux"}
		all.Manifests = append(all.Manifests, d)
		blobs = append(blobs, img.manifest, img.config)
		blobs = append(blobs, img.layers...)
	}
	top := newBlob(encode(all))
	blobs = append(blobs, top)

	entry := describeBlob(typeIndex, top)
	entry.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": o.version,
		"io.containerd.image.name":          o.name + ":" + o.version, // docker and ctr name it by this
	}
	w := tar.NewWriter(out)
	files := []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", encode(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{entry}})},
		{"manifest.json", encode(dockerManifest(images, o))},
	}
	for _, f := range files {
		if err := addFile(w, f.name, 0o644, f.content, o.created); err != nil {
			return err
		}
	}
	written := make(map[string]bool)
	for _, b := range blobs {
		if written[b.digest] { // two architectures never share one, except in tests
			continue
		}
		written[b.digest] = true
		if err := addFile(w, blobPath(b), 0o644, b.content, o.created); err != nil {
			return err
		}
	}
	return w.Close()
}

func blobPath(b blob) string { return "blobs/" + strings.Replace(b.digest, ":", "/", 1) }

// dockerEntry is what `docker load` before version 25 goes by. It knows one architecture only.
type dockerEntry struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

func dockerManifest(images []image, o options) []dockerEntry {
	for _, img := range images {
		if img.arch != o.local() {
			continue
		}
		e := dockerEntry{Config: blobPath(img.config), RepoTags: []string{o.name + ":" + o.version}}
		for _, layer := range img.layers {
			e.Layers = append(e.Layers, blobPath(layer))
		}
		return []dockerEntry{e}
	}
	return nil
}
