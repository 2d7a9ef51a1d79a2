package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// page fills in a template: the release's notes, or what package managers need of a release, krew's plugin manifest
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/) and Homebrew's formula (https://docs.brew.sh/Formula-Cookbook).
func page(name string, about map[string]any) ([]byte, error) {
	all, err := template.ParseFS(templates, "templates/*")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = all.Option("missingkey=error").ExecuteTemplate(&out, name+".tmpl", about)
	return out.Bytes(), err
}

// download is the archive of the command line for one platform.
type download struct{ OS, Arch, URL, Sum string }

// writeCommandLine writes an archive of the command line for each platform, and what package managers need to install them.
func writeCommandLine(dir string, licences []byte, o options) error {
	home := "https://" + module
	var archives []download
	for _, p := range o.platforms {
		content, err := commandLine(p, licences, o)
		if err != nil {
			return err
		}
		name := "clusterset-" + p.os + "-" + p.arch + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
		archives = append(archives, download{p.os, p.arch, strings.Join([]string{home, "releases/download", o.version, name}, "/"), fmt.Sprintf("%x", sha256.Sum256(content))})
	}
	for _, name := range []string{"clusterset.yaml", "clusterset.rb"} {
		text, err := page(name, map[string]any{"Version": o.version, "Number": o.chartVersion(), "Home": home, "Archives": archives})
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o644)); err != nil {
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
