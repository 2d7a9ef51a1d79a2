package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"
)

// blob is a content of the layout, which goes by its digest.
type blob struct {
	digest  string
	content []byte
}

func newBlob(content []byte) blob { return blob{digestOf(content), content} }

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newLayer returns a layer with one executable file, and the digest of the layer before compression, which the image's
// configuration lists.
func newLayer(path, name string, modified time.Time) (_ blob, diffID string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return blob{}, "", err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := addFile(w, name, 0o755, content, modified); err != nil {
		return blob{}, "", err
	}
	if err := w.Close(); err != nil {
		return blob{}, "", fmt.Errorf("write layer of %s: %w", name, err)
	}
	var compressed bytes.Buffer
	z := gzip.NewWriter(&compressed) // whose header has neither name nor time unless they are set
	if _, err := z.Write(archive.Bytes()); err != nil {
		return blob{}, "", fmt.Errorf("compress layer of %s: %w", name, err)
	}
	if err := z.Close(); err != nil {
		return blob{}, "", fmt.Errorf("compress layer of %s: %w", name, err)
	}
	return newBlob(compressed.Bytes()), digestOf(archive.Bytes()), nil
}

// addFile adds a file of root's, which nobody else may write: a process that is broken into can't replace its own binary.
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
