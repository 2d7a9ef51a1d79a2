package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

//go:embed RELEASE_NOTES.md.tmpl
var notesTemplate string

// writeCommandLine writes an archive of the command line for each platform.
func writeCommandLine(dir string, licences []byte, o options) error {
	for _, p := range o.platforms {
		content, err := commandLine(p, licences, o)
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "clusterset-"+p.os+"-"+p.arch+".tar.gz"), content, 0o644)); err != nil {
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

// notes are the release's page: what a reader needs to get it and to make it again.
func notes(o options, image, chart v1.Hash) ([]byte, error) {
	page, err := template.New("notes").Option("missingkey=error").Parse(notesTemplate)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{
		"Version": o.version, "Number": o.chartVersion(), "Image": o.reference() + "@" + image.String(), "Chart": chart, "Module": module,
		"Created": o.created.Unix(), "Go": runtime.Version(),
	})
	return out.Bytes(), err
}
