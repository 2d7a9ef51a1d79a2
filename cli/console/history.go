package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
)

const (
	// maxHappened bounds what the console remembers of each source and of what it saw itself, and maxHistory what an answer has.
	maxHappened, maxHistory = 2000, 500
	// sameTime is how far a condition's change and the Event about it may be apart.
	sameTime = 5 * time.Second
	// itself is the key of what the console saw itself, among the numbers of sources.
	itself = -1
)

// History is the answer of /api/history: what happened in the set, the newest first.
type History struct {
	Total int        `json:"total"`
	Items []Happened `json:"items"`
	// Unread are the sources whose Events can't be read, or not all of them, with the reason.
	Unread []string `json:"unread,omitempty"`
}

// Happened is something that happened.
type Happened struct {
	// Time is when it happened last, and Count how often.
	Time  time.Time `json:"time"`
	Count int       `json:"count,omitempty"`
	// Context and Cluster are where it was seen: both are empty for the hub of one context.
	Context string `json:"context,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	view.Problem
	Warning bool `json:"warning,omitempty"` // else it is no problem
	// ID is unique in its source: that of the Event.
	ID string `json:"-"`
}

// SetEvents adds Events of the source of a number, and says why they can't be read.
func (s *Server) SetEvents(number int, events []Happened, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(number, events...)
	s.unread[number] = err
}

// remember adds what happened in a source, by ID, and forgets the oldest beyond maxHappened. API servers delete Events after an hour; this remembers
// them for as long as the console runs. The caller holds the lock.
func (s *Server) remember(key int, all ...Happened) {
	h := s.happened[key]
	if h == nil {
		h = map[string]Happened{}
		s.happened[key] = h
	}
	for _, e := range all {
		h[e.ID] = e
	}
	if len(h) > maxHappened {
		for _, e := range slices.SortedFunc(maps.Values(h), newestFirst)[maxHappened:] {
			delete(h, e.ID)
		}
	}
}

// changed is that a source stopped answering, or answers again.
func (s *Source) changed(now time.Time) Happened {
	p := view.Problem{What: whatSource, Name: s.name(), Reason: string(s.State), Message: cmp.Or(s.Error, "it answers again")}
	return Happened{ID: p.Name + now.String(), Time: now, Context: s.Context, Cluster: s.Cluster, Problem: p, Warning: s.lost()}
}

// changes are the changes of clusters from one set to the next that no Event says: who joined, left, was drained or is no longer drained.
func (s *set) changes(earlier *set, now time.Time) (all []Happened) {
	add := func(name, reason, message string) {
		all = append(all, Happened{ID: name + now.String(), Time: now, Problem: view.Problem{What: "MemberCluster", Name: name, Reason: reason, Message: message}})
	}
	was := map[string]*clustersetv1alpha1.MemberCluster{}
	for _, m := range earlier.members {
		was[m.Name] = m
	}
	for _, m := range s.members {
		before := was[m.Name]
		delete(was, m.Name)
		switch {
		case before == nil:
			add(m.Name, "Joined", "it is on the hub")
		case m.Spec.Drain && !before.Spec.Drain:
			add(m.Name, "Drained", "spec.drain was set: it is used as the last resort")
		case before.Spec.Drain && !m.Spec.Drain:
			add(m.Name, "Undrained", "spec.drain was taken back")
		}
	}
	for name := range was {
		add(name, "Removed", "its MemberCluster was deleted from the hub")
	}
	return all
}

// history answers /api/history: also with the last changes of the clusters' conditions, which stay when their Events are gone.
func (s *Server) history(context.Context, query) (*History, error) {
	s.mu.Lock()
	out := &History{Items: []Happened{}}
	members := s.now.set.members
	for _, h := range s.happened {
		out.Items = slices.AppendSeq(out.Items, maps.Values(h))
	}
	for number, err := range s.unread {
		if from := s.now.sources[number]; err != nil {
			out.Unread = append(out.Unread, strings.TrimSpace(from.Role+" "+from.Context)+": "+err.Error())
		}
	}
	s.mu.Unlock()
	slices.Sort(out.Unread)
	said := map[string][]time.Time{}
	for i := range out.Items {
		h := &out.Items[i]
		key := h.What + " " + h.Name + " " + h.Reason
		said[key] = append(said[key], h.Time)
	}
	for _, m := range members {
		for i := range m.Status.Conditions {
			c := &m.Status.Conditions[i]
			told := slices.ContainsFunc(said["MemberCluster "+m.Name+" "+c.Reason], func(at time.Time) bool { return at.Sub(c.LastTransitionTime.Time).Abs() <= sameTime })
			if !told && !c.LastTransitionTime.IsZero() {
				p := view.Problem{What: "MemberCluster", Name: m.Name, Reason: c.Reason, Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)}
				out.Items = append(out.Items, Happened{Time: c.LastTransitionTime.Time, Problem: p})
			}
		}
	}
	slices.SortFunc(out.Items, newestFirst)
	out.Total = len(out.Items)
	out.Items = out.Items[:min(out.Total, maxHistory)]
	return out, nil
}

func newestFirst(a, b Happened) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Message, b.Message), cmp.Compare(a.ID, b.ID))
}
