package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"
)

// The media types of the OCI image specification that are used here.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user runs the processes: nobody in particular, and by number, so that Kubernetes can tell that it isn't root.
const user = "65532:65532"

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type config struct {
	Created time.Time `json:"created"`
	platform
	Config  process   `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type process struct {
	User       string            `json:"User"`
	Env        []string          `json:"Env"`
	Entrypoint []string          `json:"Entrypoint"`
	WorkingDir string            `json:"WorkingDir"`
	Labels     map[string]string `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

// image is the image of one architecture.
type image struct {
	arch             string
	manifest, config blob
	layers           []blob
}

// newImage makes the image of the binaries in dir.
func newImage(dir, arch string, o options) (image, error) {
	img := image{arch: arch}
	about := annotations(o)
	c := config{
		Created:  o.created,
		platform: platform{Architecture: arch, OS: "linux"},
		Config: process{
			User: user, Env: []string{"PATH=/"}, Entrypoint: []string{"/clusterset"}, WorkingDir: "/", Labels: about,
		},
		RootFS: rootFS{Type: "layers"},
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: about}
	for _, name := range binaries {
		layer, diffID, err := newLayer(filepath.Join(dir, name), name, o.created)
		if err != nil {
			return image{}, err
		}
		img.layers = append(img.layers, layer)
		m.Layers = append(m.Layers, describeBlob(typeLayer, layer))
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, diffID)
		c.History = append(c.History, history{o.created, "go build ./cmd/" + name})
	}
	img.config = newBlob(encode(c))
	m.Config = describeBlob(typeConfig, img.config)
	img.manifest = newBlob(encode(m))
	return img, nil
}

// annotations are what the specification has names for.
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

func describeBlob(mediaType string, b blob) descriptor {
	return descriptor{MediaType: mediaType, Digest: b.digest, Size: int64(len(b.content))}
}

// encode is for values of the types above, which JSON can always say.
func encode(v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return content
}
