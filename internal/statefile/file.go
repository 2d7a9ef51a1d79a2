package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterset/clusterset/internal/manifests"
)

// leftover is the age at which a temporary file is assumed to be left by a killed process. It is far longer than a
// write takes, so that the temporary file of another server that shares the path is younger.
const leftover = 5 * time.Minute

// Read reads the file. The error satisfies errors.Is(err, fs.ErrNotExist) if there is none.
func Read(path string) (*State, []manifests.Note, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	return Decode(f, info.Size())
}

// Write replaces the file atomically: even if the process is killed or the machine loses power, the file is either
// completely old or completely new. Only its owner can read it.
func Write(path string, s *State) (err error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	removeLeftovers(dir, name)
	f, err := os.CreateTemp(dir, "."+name+".*.tmp") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := Encode(f, s); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// removeLeftovers removes the temporary files of killed processes, which would otherwise fill the disk.
func removeLeftovers(dir, name string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "."+name+".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > leftover {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// syncDir makes a rename survive a power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
