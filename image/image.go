package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the processes. It is a number, so that Kubernetes can see that it isn't root (runAsNonRoot).
const user = "65532:65532"

// newIndex returns the container image: an index that lists an image for each architecture.
func newIndex(o options, notices []byte) (v1.ImageIndex, error) {
	all := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), annotations(o)).(v1.ImageIndex)
	for _, arch := range o.architectures() {
		one, err := newImage(arch, o, notices)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", arch, err)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add:        one,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: linux, Architecture: arch}},
		})
	}
	return all, nil
}

// newImage returns the image for an architecture: a layer for each program, and one for the licences.
func newImage(arch string, o options, notices []byte) (v1.Image, error) {
	about := annotations(o)
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	add := func(by string, files ...file) error {
		layer, err := newLayer(o.created, files...)
		if err != nil {
			return err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: o.created}, CreatedBy: by}})
		if err != nil {
			return fmt.Errorf("add %s: %w", files[0].name, err)
		}
		return nil
	}
	for _, name := range programs(platform{linux, arch}) {
		content, err := os.ReadFile(o.binary(platform{linux, arch}, name))
		if err != nil {
			return nil, err
		}
		if err := add("go build ./cmd/"+name, file{name, 0o755, content}); err != nil {
			return nil, err
		}
	}
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	if err := add("licences", file{"licenses/LICENSE", 0o644, licence}, file{"licenses/" + noticesFile, 0o644, notices}); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = linux, arch, v1.Time{Time: o.created}
	config.Config = v1.Config{
		User: user, Env: []string{"PATH=/"}, Entrypoint: []string{"/clusterset"}, WorkingDir: "/", Labels: about,
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, about).(v1.Image), nil
}

type file struct {
	name    string // its path, without the leading slash
	mode    int64
	content []byte
}

// newLayer returns a layer of files. Root owns them and they are read-only, so that a compromised process can't replace its own binary.
func newLayer(modified time.Time, files ...file) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range files {
		if err := addFile(w, f.name, f.mode, f.content, modified); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write layer of %s: %w", files[0].name, err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// annotations are the keys that the OCI image specification predefines.
func annotations(o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "clusterset",
		"org.opencontainers.image.description":   "Cross-cluster service names for Kubernetes: CoreDNS with the clusterset plugin, and the agent",
		"org.opencontainers.image.version":       o.version,
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.created":       o.created.Format(time.RFC3339),
		"org.opencontainers.image.source":        "https://github.com/clusterset/clusterset",
		"org.opencontainers.image.documentation": "https://github.com/clusterset/clusterset",
	}
}

// writeImage writes the images of all architectures as one OCI layout.
func writeImage(path string, all v1.ImageIndex, o options) error {
	return writeArchive(path, o.created, func(dir string) error {
		to, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		return to.AppendIndex(all, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": o.version,
			"io.containerd.image.name":          o.reference(), // ctr and docker name the image by this
		}))
	})
}

// writeArchive makes a tar archive of the OCI layout that write puts into a folder. The file appears once it is complete.
func writeArchive(path string, modified time.Time, write func(dir string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := write(filepath.Join(dir, "layout")); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.Create(filepath.Join(dir, "archive"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeTar(f, filepath.Join(dir, "layout"), "", modified, nil), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// writeTar writes the files of dir in the order of their names, below prefix. edit, where it isn't nil, may change a file's
// content or leave the file out, by returning nil.
func writeTar(out io.Writer, dir, prefix string, modified time.Time, edit func(name string, content []byte) ([]byte, error)) error {
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
		if edit != nil {
			if content, err = edit(filepath.ToSlash(name), content); content == nil || err != nil {
				return err
			}
		}
		return addFile(w, prefix+filepath.ToSlash(name), 0o644, content, modified)
	})
	return errors.Join(err, w.Close())
}

func addFile(w *tar.Writer, name string, mode int64, content []byte, modified time.Time) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: modified, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
