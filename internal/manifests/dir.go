package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterset/clusterset/internal/index"
)

// MaxFile is the largest file read. More than a million endpoints fit.
const MaxFile = 256 << 20

// Is reports whether a file of that name is read.
func Is(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	default:
		return false
	}
}

// ReadFile returns the content of a file to be decoded.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > MaxFile:
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are read", path, info.Size(), MaxFile)
	}
	return os.ReadFile(path) //nolint:gosec // the user names the directory
}

// Key identifies an object.
type Key struct {
	Kind index.Kind
	ID   index.ObjectID
}

// KeyOf returns the key of an object.
func KeyOf(o index.Object) Key { return Key{o.Kind(), o.ID()} }

// Read reads a directory as a starting server does: its files in the order of their names, without subdirectories. If an
// object is in several places, the first counts. A file that can't be read or trusted only yields a note. The path of a file,
// whatever its name, is read as a directory with only that file, such as a server's state file (internal/statefile).
func Read(path string) (objects []Located, notes []Note, err error) {
	dir, names, err := list(path)
	if err != nil {
		return nil, nil, err
	}
	first := map[Key]string{}
	for _, name := range names {
		data, err := ReadFile(filepath.Join(dir, name))
		if err != nil {
			notes = append(notes, Note{name, "file", err})
			continue
		}
		found, wrong, err := Decode(name, data)
		notes = append(notes, wrong...)
		if err != nil {
			notes = append(notes, Note{name, "file", fmt.Errorf("nothing of it is read: %w", err)})
			continue
		}
		for _, l := range found {
			key := KeyOf(l.Object)
			if place, twice := first[key]; twice {
				notes = append(notes, Note{l.Place, key.Kind.String(), fmt.Errorf("%s %s/%s is already defined at %s, which is used", key.Kind, key.ID.Namespace, key.ID.Name, place)})
				continue
			}
			first[key] = l.Place
			objects = append(objects, l)
		}
	}
	return objects, notes, nil
}

// list returns a directory and the names of the files in it that are read.
func list(path string) (dir string, names []string, err error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return filepath.Dir(path), []string{filepath.Base(path)}, nil
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if Is(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return path, names, err
}
