package clusterset

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/text"
)

// settle is how long a directory must be quiet before it is read: editors, and kubelet when it updates a ConfigMap, write,
// rename and link in several steps.
const settle = 100 * time.Millisecond

// rescan is how often the directory is scanned without an event: network file systems send none. A variable for tests.
var rescan = 5 * time.Second

// manifestsFeed reads objects from the YAML and JSON files of a directory and follows their changes. It is a source for
// machines without Kubernetes. If a file can't be read or parsed, its last good objects stay, and the other files are not
// affected.
type manifestsFeed struct {
	dir  string
	held map[manifests.Key]index.Object

	mu    sync.Mutex // a reload reads files
	files map[string]manifest
	// listed is set once the directory has been listed, by this feed or the one that it took over from.
	listed bool
}

// manifest is the last good state of one file.
type manifest struct {
	info    fs.FileInfo // from the last read
	objects []manifests.Located
}

// unchanged reports whether a file is the one that was read last, without reading it. Size and time alone don't show that: the
// files of an image, a Nix store or some ConfigMap mounts all have the same time, and the next version is another file under
// the same name.
func (m manifest) unchanged(now fs.FileInfo) bool {
	return m.info != nil && os.SameFile(m.info, now) && m.info.Size() == now.Size() && m.info.ModTime().Equal(now.ModTime())
}

func (*manifestsFeed) name() string { return sourceManifests }

// takeOver begins with what a running feed of the same directory last read: a reload doesn't make a broken file readable.
func (f *manifestsFeed) takeOver(all []*source) {
	for _, s := range all {
		if old, ok := s.feed.(*manifestsFeed); ok && old.dir == f.dir {
			old.mu.Lock()
			f.files, f.listed = maps.Clone(old.files), old.listed
			old.mu.Unlock()
		}
	}
}

func (f *manifestsFeed) run(ctx context.Context, s *source) {
	f.held = map[manifests.Key]index.Object{}
	events, errs, stop := f.notify()
	defer stop()
	f.apply(s)
	f.scan(s)
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			pause(ctx, settle)
			drain(events)
		case err := <-errs: // an event overflow, for example; if errors weren't read, they would block events
			log.Warningf("manifests: watch %s: %v", f.dir, err)
		case <-tick.C:
		}
		if ctx.Err() == nil {
			f.scan(s)
		}
	}
}

// notify returns the channels of a watch on the directory, and a function that stops it. The channels are nil if the system
// can't watch it.
func (f *manifestsFeed) notify() (<-chan fsnotify.Event, <-chan error, func()) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		if err = w.Add(f.dir); err == nil {
			return w.Events, w.Errors, func() { _ = w.Close() }
		}
		_ = w.Close()
	}
	log.Warningf("manifests: %s can't be watched and is scanned every %v: %v", f.dir, rescan, err)
	return nil, nil, func() {}
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

// scan reads the files that changed and passes the changes on.
func (f *manifestsFeed) scan(s *source) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		served := "what was last read is still served"
		if !f.listed {
			served = "until it can be listed, every name is answered SERVFAIL"
		}
		f.failed(s, fmt.Errorf("%w (%s)", err, served))
		f.serve(s)
		return
	}
	present := map[string]bool{}
	changed := !f.listed
	for _, e := range entries {
		if name := e.Name(); manifests.Is(name) {
			present[name] = true
			changed = f.readFile(s, name) || changed
		}
	}
	for name := range f.files {
		if !present[name] {
			f.forget(name)
			changed = true
		}
	}
	f.mu.Lock()
	f.listed = true
	f.mu.Unlock()
	if changed {
		f.apply(s)
	}
	f.serve(s)
}

// serve begins to answer, once the directory has been listed.
func (f *manifestsFeed) serve(s *source) {
	if !f.listed {
		return
	}
	for _, k := range index.Kinds {
		s.reachable(k, true)
		s.read(k)
	}
}

func (f *manifestsFeed) keep(name string, m manifest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[string]manifest{}
	}
	f.files[name] = m
}

func (f *manifestsFeed) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, name)
}

// readFile reads a file unless it is unchanged, and reports whether there are new objects.
func (f *manifestsFeed) readFile(s *source, name string) bool {
	path := filepath.Join(f.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		f.failed(s, err)
		return false
	}
	last := f.files[name]
	if last.unchanged(info) {
		return false
	}
	data, err := manifests.ReadFile(path)
	if err != nil {
		f.failed(s, err) // retried: a change of permissions shows in neither size nor time
		return false
	}
	last.info = info
	defer func() { f.keep(name, last) }()
	if len(bytes.TrimSpace(data)) == 0 && len(last.objects) > 0 {
		// Someone is about to write it, or the disk was full.
		f.failed(s, fmt.Errorf("%s: empty (what %s last held is still served; to remove its objects, remove the file)", name, name))
		return false
	}
	objects, notes, err := manifests.Decode(name, data)
	for _, note := range notes {
		s.invalid.Do(func() { log.Warningf("manifests: %s", text.Truncate(note.String(), maxLogged)) })
		invalidTotal.WithLabelValues(s.label, note.Kind).Inc()
	}
	if err != nil {
		f.failed(s, fmt.Errorf("%w (what %s last held is still served)", err, name))
		return false
	}
	for i := range objects {
		objects[i].Source = nil // only the compact form is kept
	}
	last.objects = objects
	return true
}

// apply passes on the difference between the files and what was passed on before. If an object is in several files, the
// first one counts, in the order of file names.
func (f *manifestsFeed) apply(s *source) {
	next := map[manifests.Key]manifests.Located{}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		for _, l := range f.files[name].objects {
			key := manifests.KeyOf(l.Object)
			if first, ok := next[key]; ok {
				s.invalid.Do(func() {
					line := fmt.Sprintf("%s: %s %s/%s is already defined at %s, which is used", l.Place, key.Kind, key.ID.Namespace, key.ID.Name, first.Place)
					log.Warningf("manifests: %s", text.Truncate(line, maxLogged))
				})
				continue
			}
			next[key] = l
		}
	}
	for key, l := range next {
		if f.held[key] != l.Object {
			f.held[key] = l.Object
			s.put(key.Kind, key.ID, l.Object, nil)
		}
	}
	// Last, so that a service whose objects have other names now isn't missing in between.
	for key := range f.held {
		if _, ok := next[key]; !ok {
			delete(f.held, key)
			s.delete(key.Kind, key.ID)
		}
	}
}

// failed reports a file or directory that could not be read. The kind is unknown, so it is counted under kindFile.
func (f *manifestsFeed) failed(s *source, err error) {
	errorsTotal.WithLabelValues(s.label, kindFile).Inc()
	log.Errorf("manifests: %v", err)
}
