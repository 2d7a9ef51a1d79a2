package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the processes. It is a number, so that Kubernetes can tell that it isn't root (runAsNonRoot).
const user = "65532:65532"

// newImage returns the image of the binaries in dir, a layer for each.
func newImage(dir, arch string, o options) (v1.Image, error) {
	about := annotations(o)
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, name := range binaries {
		layer, err := newLayer(filepath.Join(dir, name), name, o.created)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: o.created}, CreatedBy: "go build ./cmd/" + name},
		})
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", name, err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.created}
	config.Config = v1.Config{
		User: user, Env: []string{"PATH=/"}, Entrypoint: []string{"/clusterset"}, WorkingDir: "/", Labels: about,
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, about).(v1.Image), nil
}

// newLayer returns a layer that holds one executable file. Root owns it and nobody may write it, so that a process that is broken
// into can't replace its own binary.
func newLayer(path, name string, modified time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := addFile(w, name, 0o755, content, modified); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write layer of %s: %w", name, err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
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

// annotations are the keys that the OCI image specification predefines.
func annotations(o options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "clusterset",
		"org.opencontainers.image.description":   "Cross-cluster service names for Kubernetes: CoreDNS with the clusterset plugin, and the agent",
		"org.opencontainers.image.version":       o.version,
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.created":       o.created.Format(time.RFC3339),
		"org.opencontainers.image.documentation": "https://github.com/clusterset/clusterset",
	}
}
