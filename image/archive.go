package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeArchive writes the images of all architectures as one OCI layout. The file appears once it is complete.
func writeArchive(path string, images map[string]v1.Image, o options) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := writeLayout(filepath.Join(dir, "layout"), images, o); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.Create(filepath.Join(dir, "archive"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeTar(f, filepath.Join(dir, "layout"), o), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// writeLayout writes an image layout that names one index, which lists the images.
func writeLayout(dir string, images map[string]v1.Image, o options) error {
	all := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), annotations(o)).(v1.ImageIndex)
	for _, arch := range o.architectures {
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add:        images[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	err = to.AppendIndex(all, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.version,
		"io.containerd.image.name":          o.reference(), // ctr and docker name the image by this
	}))
	if err != nil {
		return err
	}
	entry, err := dockerManifest(images[o.local()], o)
	if err != nil {
		return err
	}
	content, err := json.Marshal([]dockerEntry{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), content, 0o600)
}

// dockerEntry is what docker load goes by, unless its image store is containerd's. It names one architecture only.
type dockerEntry struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

func dockerManifest(image v1.Image, o options) (dockerEntry, error) {
	config, err := image.ConfigName()
	if err != nil {
		return dockerEntry{}, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return dockerEntry{}, err
	}
	e := dockerEntry{Config: blobPath(config), RepoTags: []string{o.reference()}}
	for _, layer := range manifest.Layers {
		e.Layers = append(e.Layers, blobPath(layer.Digest))
	}
	return e, nil
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// writeTar writes the files of dir in the order of their names.
func writeTar(out io.Writer, dir string, o options) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return addFile(w, filepath.ToSlash(name), 0o644, content, o.created)
	})
	return errors.Join(err, w.Close())
}
