package index

import "slices"

// Sample picks elements of a list for a reply that has a limited number of records. It picks different ones each time, so that all
// elements are used. Without weights it picks a run that begins at a random element. With weights the picks are spread over the
// list, so that the chance of each element is proportional to its weight, except that none is picked twice. A copy of a Sample
// picks the same elements again. It is small because a reply holds several on the stack of a goroutine that is new for each query.
type Sample struct {
	of, n, picked int32
	first, next   int32 // the list is treated as a ring

	base, random uint32   // base is the sum before the first element
	sums         []uint32 // nil without weights
	hosts        *hostList
}

// Sample picks up to most of the targets, or all if that is 0. roll is called for a random number if some are left out; nil stands for 0.
func (t *Targets) Sample(most int, roll func() uint64) Sample {
	if t.hosts == nil || t.hosts.sums == nil {
		return newSample(t.Len(), most, roll, nil, 0)
	}
	s := newSample(t.Len(), most, roll, t.hosts.sums, 0)
	s.hosts = t.hosts
	return s
}

// Weights are the running sums of the weights of a Set's addresses, nil if the weights are all equal.
type Weights []uint32

// Sample does the same for the addresses from index from up to, but not including, to.
func (w Weights) Sample(from, to, most int, roll func() uint64) Sample {
	if w == nil {
		return newSample(to-from, most, roll, nil, 0)
	}
	base := uint32(0)
	if from > 0 {
		base = w[from-1]
	}
	return newSample(to-from, most, roll, w[from:to], base)
}

func newSample(of, most int, roll func() uint64, sums []uint32, base uint32) Sample {
	if most == 0 || most >= of {
		return Sample{of: int32(of), n: int32(of)} //nolint:gosec // lengths of lists
	}
	random := uint64(0)
	if roll != nil {
		random = roll()
	}
	s := Sample{of: int32(of), n: int32(most), sums: sums, base: base} //nolint:gosec // lengths of lists
	if sums == nil {
		s.next = int32(random % uint64(of)) //nolint:gosec // lengths of lists
	} else {
		s.random = uint32(random % s.total()) //nolint:gosec // below the total
	}
	return s
}

// Len returns how many elements it picks.
func (s *Sample) Len() int { return int(s.n) }

// Cut reports whether it leaves elements out.
func (s *Sample) Cut() bool { return s.n < s.of }

// Next returns the next element.
func (s *Sample) Next() int {
	i := s.next
	if s.sums != nil {
		i = s.nextWeighted()
	}
	s.next, s.picked = i+1, s.picked+1
	if i >= s.of {
		i -= s.of
	}
	return int(i)
}

// nextWeighted takes equal steps over the weights from a random start. An element where several steps end is picked once, and its
// neighbours are picked for the other steps.
func (s *Sample) nextWeighted() int32 {
	at, round := uint64(s.random)+s.total()*uint64(s.picked)/uint64(s.n), int32(0) //nolint:gosec // lengths are positive
	if at >= s.total() {
		at, round = at-s.total(), s.of
	}
	i := s.find(at+uint64(s.base)) + round
	if s.picked == 0 {
		s.first = i
		return i
	}
	return min(max(i, s.next), s.first+s.of-s.n+s.picked)
}

func (s *Sample) total() uint64 { return uint64(s.sums[len(s.sums)-1] - s.base) }

// find returns the element whose range of running sums contains the given weight.
func (s *Sample) find(at uint64) int32 {
	i, _ := slices.BinarySearch(s.sums, uint32(at)+1) //nolint:gosec // below the last sum
	if s.hosts == nil {
		return int32(i) //nolint:gosec // the length of a list
	}
	before := uint64(0)
	if i > 0 {
		before = uint64(s.sums[i-1])
	}
	from, numbers := s.hosts.numbersOf(i)
	return int32(from) + int32((at-before)*uint64(numbers)/(uint64(s.sums[i])-before)) //nolint:gosec // lengths are positive
}
