package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

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
