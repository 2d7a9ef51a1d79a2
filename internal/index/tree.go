package index

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// tree is a persistent hash array mapped trie of services: put and del return a new tree that shares all but the path to the
// changed leaf with the old one, so an update costs a few hundred bytes however many services there are, and doesn't disturb
// readers of the old tree. A Go map would have to be copied whole.
type tree struct {
	root *node
	size int
}

const (
	fanoutBits = 6
	// Beyond maxShift no hash bits are left and a node is a plain list. Two keys get there only if 60 bits of their hashes
	// agree.
	maxShift = 60
)

// node has two bitmaps over the 64 values of its six hash bits: where a service sits, and where a further node does.
type node struct {
	leaves, branches uint64
	services         []*Service
	nodes            []*node
}

var hashSeed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(hashSeed, key) }

// get returns the service of that key, or nil.
func (t tree) get(key string) *Service {
	n, h := t.root, hashOf(key)
	for n != nil {
		bit := uint64(1) << (h & 63)
		switch {
		case n.branches&bit != 0:
			n = n.nodes[bits.OnesCount64(n.branches&(bit-1))]
			h >>= fanoutBits
		case n.leaves&bit != 0:
			if s := n.services[bits.OnesCount64(n.leaves&(bit-1))]; string(s.key) == key {
				return s
			}
			return nil
		default:
			return n.find(key)
		}
	}
	return nil
}

// find searches a node that is a plain list. Such a node has services but no bitmap.
func (n *node) find(key string) *Service {
	if n.leaves != 0 {
		return nil
	}
	for _, s := range n.services {
		if string(s.key) == key {
			return s
		}
	}
	return nil
}

// put returns a tree with s in it. It replaces a service of the same key.
func (t tree) put(s *Service) tree {
	root, added := t.root.put(s, hashOf(string(s.key)), 0)
	if added {
		t.size++
	}
	t.root = root
	return t
}

func (n *node) put(s *Service, h uint64, shift uint) (next *node, added bool) {
	if n == nil {
		n = &node{}
	}
	c := *n
	if shift >= maxShift {
		for i, old := range n.services {
			if old.key == s.key {
				c.services = replaced(n.services, i, s)
				return &c, false
			}
		}
		c.services = inserted(n.services, len(n.services), s)
		return &c, true
	}
	bit := uint64(1) << (h >> shift & 63)
	at := bits.OnesCount64(n.leaves & (bit - 1))
	below := bits.OnesCount64(n.branches & (bit - 1))
	switch {
	case n.branches&bit != 0:
		child, added := n.nodes[below].put(s, h, shift+fanoutBits)
		c.nodes = replaced(n.nodes, below, child)
		return &c, added
	case n.leaves&bit == 0:
		c.leaves |= bit
		c.services = inserted(n.services, at, s)
		return &c, true
	case n.services[at].key == s.key:
		c.services = replaced(n.services, at, s)
		return &c, false
	default: // two keys share these bits: both move one level down
		old := n.services[at]
		child, _ := (*node)(nil).put(old, hashOf(string(old.key)), shift+fanoutBits)
		child, _ = child.put(s, h, shift+fanoutBits)
		c.leaves &^= bit
		c.services = removed(n.services, at)
		c.branches |= bit
		c.nodes = inserted(n.nodes, below, child)
		return &c, true
	}
}

// del returns a tree without the service of that key.
func (t tree) del(key ServiceKey) tree {
	root, gone := t.root.del(key, hashOf(string(key)), 0)
	if gone {
		t.root = root
		t.size--
	}
	return t
}

// del returns nil for a node that becomes empty. It leaves nodes with a single leaf in place instead of pulling the leaf up:
// the next key with that hash prefix would push it down again.
func (n *node) del(key ServiceKey, h uint64, shift uint) (next *node, gone bool) {
	if n == nil {
		return nil, false
	}
	c := *n
	at := -1
	if shift >= maxShift {
		for i, s := range n.services {
			if s.key == key {
				at = i
			}
		}
	} else {
		bit := uint64(1) << (h >> shift & 63)
		if n.branches&bit != 0 {
			below := bits.OnesCount64(n.branches & (bit - 1))
			child, gone := n.nodes[below].del(key, h, shift+fanoutBits)
			if !gone {
				return n, false
			}
			if child != nil {
				c.nodes = replaced(n.nodes, below, child)
				return &c, true
			}
			c.branches &^= bit
			c.nodes = removed(n.nodes, below)
			return c.orNil(), true
		}
		if i := bits.OnesCount64(n.leaves & (bit - 1)); n.leaves&bit != 0 && n.services[i].key == key {
			at = i
			c.leaves &^= bit
		}
	}
	if at < 0 {
		return n, false
	}
	c.services = removed(n.services, at)
	return c.orNil(), true
}

func (n *node) orNil() *node {
	if len(n.services) == 0 && len(n.nodes) == 0 {
		return nil
	}
	return n
}

// all yields every service, in no particular order.
func (n *node) all(yield func(*Service) bool) bool {
	if n == nil {
		return true
	}
	for _, s := range n.services {
		if !yield(s) {
			return false
		}
	}
	for _, child := range n.nodes {
		if !child.all(yield) {
			return false
		}
	}
	return true
}

// replaced, inserted and removed return changed copies without spare capacity, which would waste memory in every node.

func replaced[T any](s []T, i int, v T) []T { return slices.Concat(s[:i], []T{v}, s[i+1:]) }

func inserted[T any](s []T, i int, v T) []T { return slices.Concat(s[:i], []T{v}, s[i:]) }

func removed[T any](s []T, i int) []T { return slices.Concat(s[:i], s[i+1:]) }
