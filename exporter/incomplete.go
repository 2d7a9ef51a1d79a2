package exporter

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
)

// maxIncomplete is how long the names of incomplete services in a heartbeat may be: the hub's policy admits no more in an annotation.
const maxIncomplete = 256

// incomplete are the exported services whose records the hub may lack (rule C75 of docs/spec/control-plane.md). Importers must not take the
// absence of such a record for an un-export, although heartbeats go on.
type incomplete struct {
	mu sync.Mutex
	of map[types.NamespacedName]bool
}

// note records whether the hub may lack records of services.
func (i *incomplete) note(lacks bool, keys ...types.NamespacedName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, key := range keys {
		if lacks && i.of == nil {
			i.of = map[types.NamespacedName]bool{}
		}
		if lacks {
			i.of[key] = true
		} else {
			delete(i.of, key)
		}
	}
}

// say returns what a heartbeat says about these and further services.
func (i *incomplete) say(more []types.NamespacedName) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	all, length := map[string]bool{}, 0
	for _, keys := range [][]types.NamespacedName{more, slices.Collect(maps.Keys(i.of))} {
		for _, key := range keys {
			if name := key.String(); !all[name] {
				all[name] = true
				length += len(name) + 1
			}
			if length > maxIncomplete+1 {
				return api.IncompleteAll
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), ",")
}
