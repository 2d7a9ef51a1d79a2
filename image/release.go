package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeRelease writes all files into the folder of the version, which appears once it is complete.
func writeRelease(all image, parts programParts, o options, log io.Writer) error {
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

func writeFiles(dir string, all image, parts programParts, o options) error {
	licences := notices(parts)
	if err := writeCommandLine(dir, licences, o); err != nil {
		return err
	}
	if err := writeImage(filepath.Join(dir, "clusterset-image.tar"), all, o); err != nil {
		return err
	}
	chart, err := newChart(o)
	if err != nil {
		return err
	}
	artifact, err := chart.artifact(o)
	if err != nil {
		return fmt.Errorf("make an artifact of the chart: %w", err)
	}
	if err := chart.write(filepath.Join(dir, "clusterset-chart.tar"), artifact, o); err != nil {
		return err
	}
	list, err := sbom(o, parts)
	if err != nil {
		return err
	}
	imageDigest, err := all.Digest()
	if err != nil {
		return err
	}
	chartDigest, err := artifact.Digest()
	if err != nil {
		return err
	}
	text, err := notes(o, imageDigest, chartDigest)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, chart.file(o)), chart.archive, 0o644),
		os.WriteFile(filepath.Join(dir, "clusterset-sbom.cdx.json"), list, 0o644),
		os.WriteFile(filepath.Join(dir, noticesFile), licences, 0o644),
		os.WriteFile(filepath.Join(dir, "RELEASE_NOTES.md"), text, 0o644),
	)
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
