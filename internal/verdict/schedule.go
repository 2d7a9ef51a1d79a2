package verdict

import (
	"hash/fnv"
	"slices"
	"time"
)

const (
	// every is how often a cluster is dialled at most, and perSecond how many dials there are in all, without those to clusters that fail.
	every     = time.Second
	perSecond = 30
	// late is when a dial that hasn't ended is followed by others, and mostOpen how many to one cluster may be open.
	late     = 1500 * time.Millisecond
	mostOpen = 3
)

// schedule is when a cluster is dialled (D45).
type schedule struct {
	dialled bool // whether it has a beacon at all
	began   time.Time
	open    []time.Time // when the dials that haven't ended began
	bad     bool        // the last one to end failed
}

// begin makes the first dial happen at a moment of the cluster's own, so that not all happen at once.
func (s *schedule) begin(name string, interval time.Duration, now time.Time) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	s.dialled, s.began = true, now.Add(-interval*time.Duration(h.Sum32()%1000)/1000)
}

func (s *schedule) ended(began time.Time, failed bool) {
	if i := slices.Index(s.open, began); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
	s.bad = failed
}

func (s *schedule) due(interval time.Duration, now time.Time) bool {
	if s.bad || len(s.open) > 0 && now.Sub(s.open[0]) >= late {
		interval = every
	}
	return s.dialled && len(s.open) < mostOpen && now.Sub(s.began) >= interval
}

func (m *Machine) interval(measured int) time.Duration {
	return max(every, time.Duration(measured)*time.Second/perSecond)
}

// Due returns the clusters to dial now. The caller calls Done with the same time for each, once the dial has ended.
func (m *Machine) Due(now time.Time) []string {
	measured := 0
	for _, p := range m.peers {
		if p.dialled {
			measured++
		}
	}
	interval := m.interval(measured)
	var due []string
	for name, p := range m.peers {
		if p.due(interval, now) {
			p.began, p.open = now, append(p.open, now)
			due = append(due, name)
		}
	}
	return due
}
