package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// packagers are what package managers need of a release: krew's plugin manifest (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/)
// and Homebrew's formula (https://docs.brew.sh/Formula-Cookbook).
var packagers = map[string]*template.Template{
	"clusterset.yaml": template.Must(template.New("krew").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: clusterset
spec:
  version: {{.Version}}
  homepage: {{.Home}}
  shortDescription: See and change a set of clusters that share services
  description: |
    Joins clusters to a set that shares services (the Multi-Cluster Services API), shows the set's state, explains what a name
    answers and why, and predicts what a change would do.
  platforms:
{{- range .Archives}}
    - selector:
        matchLabels:
          os: {{.OS}}
          arch: {{.Arch}}
      uri: {{.URL}}
      sha256: {{.Sum}}
      bin: clusterset
{{- end}}
`)),
	"clusterset.rb": template.Must(template.New("homebrew").Parse(`class Clusterset < Formula
  desc "See and change a set of Kubernetes clusters that share services"
  homepage "{{.Home}}"
  version "{{.Number}}"
  license "Apache-2.0"
{{range .Archives}}
  if OS.{{if eq .OS "darwin"}}mac{{else}}linux{{end}}? && Hardware::CPU.{{if eq .Arch "arm64"}}arm{{else}}intel{{end}}?
    url "{{.URL}}"
    sha256 "{{.Sum}}"
  end
{{end}}
  def install
    bin.install "clusterset"
    generate_completions_from_executable(bin/"clusterset", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/clusterset version")
  end
end
`)),
}

// download is the archive of the command line for one platform.
type download struct{ OS, Arch, URL, Sum string }

// writeCommandLine writes an archive of the command line for each platform, and what package managers need to install them.
func writeCommandLine(dir string, licences []byte, o options) error {
	home := "https://" + module
	about := struct {
		Version, Number, Home string
		Archives              []download
	}{o.version, o.chartVersion(), home, nil}
	for _, p := range o.platforms {
		content, err := commandLine(p, licences, o)
		if err != nil {
			return err
		}
		name := "clusterset-" + p.os + "-" + p.arch + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
		about.Archives = append(about.Archives, download{p.os, p.arch, strings.Join([]string{home, "releases/download", o.version, name}, "/"), fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	for name, text := range packagers {
		var out bytes.Buffer
		if err := errors.Join(text.Execute(&out, about), os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// commandLine is a gzipped tar archive of a platform's clusterset with its licences.
func commandLine(p platform, licences []byte, o options) ([]byte, error) {
	program, err := os.ReadFile(o.binary(p, "clusterset"))
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	err = errors.Join(
		addFile(w, "LICENSE", 0o644, licence, o.created),
		addFile(w, noticesFile, 0o644, licences, o.created),
		addFile(w, "clusterset", 0o755, program, o.created),
		w.Close(), zip.Close(),
	)
	return out.Bytes(), err
}
