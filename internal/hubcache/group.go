package hubcache

import (
	"errors"
	"time"
)

// group is the feeds that begin because other peers or namespaces are wanted. What they list first is shown together, so that nobody merges a
// service from the records of some peers only: which of them decides is known when all have been read (rule C18 of
// docs/spec/control-plane.md). The kind's mutex guards it.
type group struct {
	feeds []*feed
	until time.Time     // when those that have been read don't wait any longer for the others
	shown chan struct{} // closed when they don't wait any more
	err   error
}

// list is a complete list.
type list struct {
	objects []any
	version string
}

func newGroup() *group { return &group{until: time.Now().Add(patience), shown: make(chan struct{})} }

// add adds a feed that takes the place of another, or of none. One whose predecessor couldn't be read isn't waited for, and selections that
// follow each other don't wait longer than the first.
func (g *group) add(f, was *feed) {
	if was != nil && !was.read && was.group == nil {
		return
	}
	if was != nil && was.group != nil && was.group.until.Before(g.until) {
		g.until = was.group.until
	}
	f.group = g
	g.feeds = append(g.feeds, f)
}

// complete reports whether nothing more is waited for.
func (g *group) complete() bool {
	if !time.Now().Before(g.until) {
		return true
	}
	for _, f := range g.feeds {
		if f.listed == nil && !f.stopped {
			return false
		}
	}
	return true
}

// listedBy shows what a feed has listed, with its group. It returns when it is shown, or the feed has been stopped.
func (k *kind) listedBy(f *feed, l *list) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := f.group
	if g == nil {
		g = newGroup()
		g.add(f, nil)
	}
	f.listed = l
	k.show(g)
	if f.group == nil {
		return g.err
	}
	k.mu.Unlock()
	select {
	case <-g.shown:
	case <-f.ended:
	}
	k.mu.Lock()
	return g.err
}

// giveUp shows what a group has.
func (k *kind) giveUp(g *group) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.show(g)
}

// show shows what a group has listed, if it is complete and hasn't been shown yet. Feeds that come later are shown as they come. The caller
// has locked k.
func (k *kind) show(g *group) {
	if g == nil || len(g.feeds) == 0 || !g.complete() {
		return
	}
	initial := !k.HasSynced()
	var changes []change
	for _, f := range g.feeds {
		if f.listed != nil && !f.stopped {
			more, err := k.replace(f, f.listed.objects, f.listed.version)
			changes, g.err = append(changes, more...), errors.Join(g.err, err)
		}
		f.group, f.listed = nil, nil
	}
	g.feeds = nil
	close(g.shown)
	k.tell(initial, changes...)
}
