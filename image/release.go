package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// writeRelease writes all files into the folder of the version, which appears once it is complete.
func writeRelease(all v1.ImageIndex, parts programParts, o options, log io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.out, ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), writeFiles(dir, all, parts, o)); err != nil {
		return err
	}
	sums, err := checksums(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums, 0o644); err != nil {
		return err
	}
	to := filepath.Join(o.out, o.version)
	if err := errors.Join(os.RemoveAll(to), os.Rename(dir, to)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(log, "%s:\n%s", to, sums)
	return nil
}

func writeFiles(dir string, all v1.ImageIndex, parts programParts, o options) error {
	licences := notices(parts)
	chart, err := newChart(o)
	if err != nil {
		return err
	}
	chartDigest, err := chart.write(filepath.Join(dir, "clusterset-chart.tar"), o)
	if err != nil {
		return err
	}
	imageDigest, err := all.Digest()
	if err != nil {
		return err
	}
	list, listErr := sbom(o, parts)
	text, textErr := notes(o, imageDigest, chartDigest)
	if err := errors.Join(listErr, textErr, writeImage(filepath.Join(dir, "clusterset-image.tar"), all, o), writeCommandLine(dir, licences, o)); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"clusterset-" + o.chartVersion() + ".tgz": chart.archive, // as Helm names it
		"clusterset-sbom.cdx.json":                list,
		noticesFile:                               licences,
		"RELEASE_NOTES.md":                        text,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checksums are the files of dir as `sha256sum -c` reads them.
func checksums(dir string) ([]byte, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(content), f.Name())
	}
	return out.Bytes(), nil
}
