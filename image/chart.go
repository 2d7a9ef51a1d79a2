package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

const chartDir = root + "/charts/clusterset"

// The media types of a chart in a registry: https://helm.sh/docs/topics/registries/.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart is the chart as of a version, which is the chart's own and that of the image it installs.
type chart struct {
	archive  []byte // as `helm package` writes it
	metadata []byte // Chart.yaml, as JSON
}

func newChart(o options) (chart, error) {
	var c chart
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	err := writeTar(zip, chartDir, "clusterset/", o.created, func(name string, content []byte) (_ []byte, err error) {
		switch {
		case strings.HasSuffix(name, ".orig"), strings.HasSuffix(name, ".tmp"): // as .helmignore has it
			return nil, nil
		case name == "Chart.yaml":
			if content, err = stamp(content, o); err == nil {
				c.metadata, err = yaml.YAMLToJSON(content)
			}
		}
		return content, err
	})
	if err := errors.Join(err, zip.Close()); err != nil {
		return chart{}, fmt.Errorf("pack the chart: %w", err)
	}
	c.archive = archive.Bytes()
	return c, nil
}

// versionRE finds the lines of a Chart.yaml that follow from the release's version: the chart's and the application's, and what Artifact
// Hub shows (https://artifacthub.io/docs/topics/annotations/helm/).
var versionRE = regexp.MustCompile(`(?m)^(version|appVersion|  artifacthub\.io/prerelease|      image): .*$`)

// stamp writes the version into a Chart.yaml.
func stamp(content []byte, o options) ([]byte, error) {
	values := map[string]string{
		"version": o.chartVersion(), "appVersion": o.version,
		"artifacthub.io/prerelease": strconv.Quote(strconv.FormatBool(semver.Prerelease(o.version) != "")), "image": o.reference(),
	}
	found := map[string]int{}
	content = versionRE.ReplaceAllFunc(content, func(line []byte) []byte {
		before, _, _ := strings.Cut(string(line), ":")
		key := strings.TrimSpace(before)
		found[key]++
		return []byte(before + ": " + values[key])
	})
	for key := range values {
		if found[key] != 1 {
			return nil, fmt.Errorf("Chart.yaml has %d lines %s:; want one", found[key], key)
		}
	}
	return content, nil
}

// write writes what a registry holds of the chart, its archive described by its metadata, as an OCI layout in a tar archive. It returns the
// manifest's digest. The blobs are written one by one, because the library's own images have an image's configuration.
func (c chart) write(file string, o options) (digest v1.Hash, err error) {
	about := annotations(o)
	about["org.opencontainers.image.version"] = o.chartVersion()
	return digest, writeArchive(file, o.created, func(dir string) error {
		to, err := layout.Write(dir, empty.Index)
		if err != nil {
			return err
		}
		config, configErr := addBlob(to, chartConfig, c.metadata)
		content, contentErr := addBlob(to, chartContent, c.archive)
		manifest, err := json.Marshal(v1.Manifest{
			SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config, Layers: []v1.Descriptor{content}, Annotations: about,
		})
		if err := errors.Join(configErr, contentErr, err); err != nil {
			return err
		}
		top, err := addBlob(to, types.OCIManifestSchema1, manifest)
		if err != nil {
			return err
		}
		digest = top.Digest
		top.ArtifactType = string(chartConfig)
		top.Annotations = map[string]string{"org.opencontainers.image.ref.name": o.chartVersion()}
		return to.AppendDescriptor(top)
	})
}

func addBlob(to layout.Path, of types.MediaType, content []byte) (v1.Descriptor, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: of, Size: size, Digest: digest}, to.WriteBlob(digest, io.NopCloser(bytes.NewReader(content)))
}
