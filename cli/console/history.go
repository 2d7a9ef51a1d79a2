package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// maxHappened bounds what the console remembers of each source and of what it saw itself, and maxHistory what an answer has.
	maxHappened, maxHistory = 2000, 500
	// sameTime is how far a condition's change and the Event about it may be apart.
	sameTime = 5 * time.Second
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
	// What, Namespace and Name are the object that it is about.
	What      string `json:"what"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Warning   bool   `json:"warning,omitempty"`
	// ID is that of the Event, unique in its source. It is empty for conditions, and for what the console saw itself.
	ID string `json:"-"`
}

// happenings are what is remembered of one source, by ID. Events are deleted after an hour; this remembers them for as long as the console runs.
type happenings struct {
	events map[string]Happened
	unread string
}

// itself is the key of what the console saw itself, among the numbers of sources.
const itself = -1

// SetEvents adds Events of the source of a number, or says why they can't be read.
func (s *Server) SetEvents(number int, events []Happened, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unread := ""
	if err != nil {
		unread = err.Error()
	}
	s.remember(number, events, unread)
}

// saw remembers what the console saw itself and no Event says. The caller holds the lock.
func (s *Server) saw(all ...Happened) {
	for i := range all {
		s.seen++
		all[i].ID = strconv.Itoa(s.seen)
	}
	s.remember(itself, all, "")
}

// remember adds what happened. The caller holds the lock.
func (s *Server) remember(key int, all []Happened, unread string) {
	h := s.happened[key]
	if h == nil {
		h = &happenings{events: map[string]Happened{}}
		s.happened[key] = h
	}
	changed := unread != h.unread
	h.unread = unread
	for _, e := range all {
		if was, ok := h.events[e.ID]; !ok || !was.Time.Equal(e.Time) || was.Count != e.Count {
			h.events[e.ID] = e
			changed = true
		}
	}
	h.forget()
	if changed {
		s.publish()
	}
}

// forget drops the oldest beyond maxHappened.
func (h *happenings) forget() {
	if len(h.events) <= maxHappened {
		return
	}
	for _, e := range slices.SortedFunc(maps.Values(h.events), newestFirst)[maxHappened:] {
		delete(h.events, e.ID)
	}
}

// changes are the changes of clusters from one set to the next that no Event says: who joined, left, was drained or is no longer drained.
func (s *set) changes(earlier *set, now time.Time) (all []Happened) {
	add := func(name, reason, message string) {
		all = append(all, Happened{Time: now, What: "MemberCluster", Name: name, Reason: reason, Message: message})
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
	for _, m := range earlier.members {
		if was[m.Name] != nil {
			add(m.Name, "Removed", "its MemberCluster was deleted from the hub")
		}
	}
	return all
}

// changes are the changes of a source: it stopped answering, or answers again.
func (s *Source) changes(was *Source, now time.Time) []Happened {
	if s.lost() == was.lost() {
		return nil
	}
	h := Happened{Time: now, Context: s.Context, Cluster: s.Cluster, What: whatSource, Name: s.name(), Reason: string(s.State), Message: s.Error, Warning: s.lost()}
	if !h.Warning {
		h.Message = "it answers again"
	}
	return []Happened{h}
}

// conditions are the last changes of the clusters' conditions, which stay when their Events are gone.
func (s *set) conditions() (all []Happened) {
	for _, m := range s.members {
		for i := range m.Status.Conditions {
			c := &m.Status.Conditions[i]
			if c.LastTransitionTime.IsZero() {
				continue
			}
			all = append(all, Happened{
				Time: c.LastTransitionTime.Time, What: "MemberCluster", Name: m.Name, Reason: c.Reason,
				Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message),
			})
		}
	}
	return all
}

// history answers /api/history.
func (s *Server) history(context.Context, query) (any, error) {
	s.mu.Lock()
	out := &History{Items: []Happened{}}
	is := s.set
	for number, h := range s.happened {
		out.Items = slices.AppendSeq(out.Items, maps.Values(h.events))
		if h.unread != "" {
			from := s.sources[number]
			out.Unread = append(out.Unread, strings.TrimSpace(from.Role+" "+from.Context)+": "+h.unread)
		}
	}
	s.mu.Unlock()
	slices.Sort(out.Unread)
	said := map[Happened][]time.Time{}
	about := func(h *Happened) Happened { return Happened{What: h.What, Name: h.Name, Reason: h.Reason} }
	for i := range out.Items {
		key := about(&out.Items[i])
		said[key] = append(said[key], out.Items[i].Time)
	}
	for _, c := range is.conditions() {
		if !slices.ContainsFunc(said[about(&c)], func(at time.Time) bool { return at.Sub(c.Time).Abs() <= sameTime }) {
			out.Items = append(out.Items, c)
		}
	}
	slices.SortFunc(out.Items, newestFirst)
	out.Total = len(out.Items)
	out.Items = out.Items[:min(out.Total, maxHistory)]
	return out, nil
}

func newestFirst(a, b Happened) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Context, b.Context), cmp.Compare(a.What, b.What), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message), cmp.Compare(a.ID, b.ID))
}
