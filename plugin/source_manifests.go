package clusterset

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/clusterset/clusterset/internal/index"
)

// settle is how long a directory must be quiet before it is read: editors and kubelet's ConfigMap updates write, rename and
// link in several steps.
const settle = 100 * time.Millisecond

// rescan is how often the directory is looked at without an event: network file systems send none. A variable for tests.
var rescan = 5 * time.Second

// manifestsFeed reads objects from the YAML and JSON files of a directory and follows their changes: a source for machines
// without Kubernetes. A file that can't be read or parsed keeps what it held last, and leaves the others alone.
type manifestsFeed struct {
	dir   string
	files map[string]*manifest
	held  map[objectKey]index.Object
}

// manifest is the last good state of one file.
type manifest struct {
	info    fs.FileInfo // when it was read last
	objects []located
}

// unchanged tells without reading it whether a file is as it was. Size and time alone don't: files of an image, of a Nix store
// or of some ConfigMap mounts all bear the same time, and the next version of one comes as another file in its place.
func (m *manifest) unchanged(now fs.FileInfo) bool {
	return m.info != nil && os.SameFile(m.info, now) && m.info.Size() == now.Size() && m.info.ModTime().Equal(now.ModTime())
}

type objectKey struct {
	kind index.Kind
	id   index.ObjectID
}

// located is an object and the place where it is written, for messages.
type located struct {
	object index.Object
	place  string
}

func (*manifestsFeed) name() string { return "manifests" }

func (f *manifestsFeed) run(ctx context.Context, s *source) {
	f.files, f.held = map[string]*manifest{}, map[objectKey]index.Object{}
	events, stop := f.notify()
	defer stop()
	f.scan(s)
	for _, k := range index.Kinds {
		s.reachable(k, true)
		s.read(k)
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			pause(ctx, settle)
			drain(events)
		case <-tick.C:
		}
		if ctx.Err() == nil {
			f.scan(s)
		}
	}
}

// notify returns a channel of changes below the directory, nil where the system offers none.
func (f *manifestsFeed) notify() (<-chan fsnotify.Event, func()) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(f.dir); err == nil {
			return w.Events, func() { _ = w.Close() }
		}
		_ = w.Close()
	}
	log.Warningf("manifests: %s is looked at every %v only: %v", f.dir, rescan, err)
	return nil, func() {}
}

func drain(events <-chan fsnotify.Event) {
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// scan reads the files that changed and passes on what is new, different and gone.
func (f *manifestsFeed) scan(s *source) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.failed(s, fmt.Errorf("%w (what was read last stays)", err))
		return
	}
	present := map[string]bool{}
	changed := false
	for _, e := range entries {
		if name := e.Name(); isManifest(name) {
			present[name] = true
			changed = f.readFile(s, name) || changed
		}
	}
	for name := range f.files {
		if !present[name] {
			delete(f.files, name)
			changed = true
		}
	}
	if changed {
		f.apply(s)
	}
}

func isManifest(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !strings.HasPrefix(name, ".")
	default:
		return false
	}
}

// readFile reads a file unless it is as it was, and reports whether it differs.
func (f *manifestsFeed) readFile(s *source, name string) bool {
	path := filepath.Join(f.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		f.failed(s, err)
		return false
	}
	last := f.files[name]
	if last == nil {
		last = &manifest{}
		f.files[name] = last
	}
	if last.unchanged(info) {
		return false
	}
	data, err := readLimited(path, info)
	if err != nil {
		f.failed(s, err) // and is tried again: permissions change without a trace in size and time
		return false
	}
	last.info = info
	objects, notes, err := decodeManifest(name, data)
	for _, note := range notes {
		log.Warningf("manifests: %s", note)
		invalidTotal.WithLabelValues(f.name(), note.kind).Inc()
	}
	if err != nil {
		f.failed(s, fmt.Errorf("%w (what %s held last stays)", err, name))
		return false
	}
	last.objects = objects
	return true
}

// maxManifest is the largest file read. Ten thousand services fit.
const maxManifest = 64 << 20

func readLimited(path string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() > maxManifest {
		return nil, fmt.Errorf("%s: %d bytes, more than the %d that are read", path, info.Size(), maxManifest)
	}
	return os.ReadFile(path) //nolint:gosec // the operator names the directory
}

// apply passes on the difference between what the files say and what was passed on before. Of an object that stands in
// several places the first counts, in the order of file names.
func (f *manifestsFeed) apply(s *source) {
	next := map[objectKey]located{}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for _, l := range f.files[name].objects {
			key := objectKey{l.object.Kind(), l.object.ID()}
			if first, ok := next[key]; ok {
				log.Warningf("manifests: %s: %s %s/%s is already written at %s, which counts", l.place, key.kind, key.id.Namespace, key.id.Name, first.place)
				continue
			}
			next[key] = l
		}
	}
	for key := range f.held {
		if _, ok := next[key]; !ok {
			delete(f.held, key)
			s.delete(key.kind, key.id)
		}
	}
	for key, l := range next {
		if f.held[key] != l.object {
			f.held[key] = l.object
			s.put(key.kind, key.id, l.object, nil)
		}
	}
}

// failed reports a file or directory that could not be read. The kind is not known: it counts under the source's.
func (f *manifestsFeed) failed(_ *source, err error) {
	errorsTotal.WithLabelValues(f.name(), "file").Inc()
	log.Errorf("manifests: %v", err)
}
