package heap

import "strings"

// texts are strings of one object, each of which is an allocation of its own after decoding.
type texts struct {
	of    []*string
	bytes int
}

func (t *texts) add(all ...*string) {
	for _, s := range all {
		if *s != "" {
			t.of, t.bytes = append(t.of, s), t.bytes+len(*s)
		}
	}
}

// pack puts the strings into one block of memory: allocations are rounded up, and leave gaps when their neighbours go, which costs more than
// the strings.
func (t *texts) pack() {
	var b strings.Builder
	b.Grow(t.bytes)
	for _, s := range t.of {
		b.WriteString(*s)
	}
	block := b.String()
	for _, s := range t.of {
		*s, block = block[:len(*s)], block[len(*s):]
	}
}

// list is a block for all strings that an object has in lists and by pointers. It must be as long as they are many, so that it never moves.
type list []string

// hold returns a copy of a list of strings that is part of the block. It returns an empty list as it is.
func (l *list) hold(all []string) []string {
	if len(all) == 0 {
		return all
	}
	from := len(*l)
	*l = append(*l, all...)
	return (*l)[from:len(*l):len(*l)]
}

// point returns a pointer to a copy of a string in the block, or nil.
func (l *list) point(s *string) *string {
	if s == nil {
		return nil
	}
	*l = append(*l, *s)
	return &(*l)[len(*l)-1]
}

// orBefore is point, or what the endpoint before has if that is the same.
func (l *list) orBefore(s, before *string) *string {
	if s != nil && before != nil && *s == *before {
		return before
	}
	return l.point(s)
}

// count returns how many there are of a list and of pointers.
func count(all []string, pointers ...*string) int {
	n := len(all)
	for _, p := range pointers {
		if p != nil {
			n++
		}
	}
	return n
}

// addTo adds all strings of the block.
func (l list) addTo(t *texts) {
	for i := range l {
		t.add(&l[i])
	}
}
