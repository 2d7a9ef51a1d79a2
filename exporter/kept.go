package exporter

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// kept remembers the records that the hub stores differently from what was written. A hub of an older version drops the
// fields that its CustomResourceDefinitions don't have; without this its records would be rewritten forever.
type kept struct {
	mu sync.Mutex
	of map[string]keptRecord
}

type keptRecord struct {
	wrote, keeps [sha256.Size]byte
	at           time.Time
}

// note records the result of a write: the hashes of what was sent and what came back.
func (k *kept) note(kind, name string, wrote, keeps [sha256.Size]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case wrote == keeps:
		delete(k.of, kind+name)
	case k.of == nil:
		k.of = map[string]keptRecord{kind + name: {wrote, keeps, time.Now()}}
	default:
		k.of[kind+name] = keptRecord{wrote, keeps, time.Now()}
	}
}

// same reports whether have is all that the hub keeps of want. After a while the answer is no longer trusted, because an upgrade
// of the hub goes unnoticed.
func (k *kept) same(kind string, have, want client.Object) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	was, ok := k.of[kind+want.GetName()]
	k.mu.Unlock()
	return ok && time.Since(was.at) < retryPruned && was.wrote == specHash(want) && was.keeps == specHash(have)
}

func (k *kept) forget(kind, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, kind+name)
}

// specHash returns a hash of a record's content.
func specHash(record client.Object) [sha256.Size]byte {
	var spec any
	switch record := record.(type) {
	case *clustersetv1alpha1.ExportedService:
		spec = record.Spec
	case *clustersetv1alpha1.ExportedEndpoints:
		spec = record.Spec
	}
	content, err := json.Marshal(spec)
	if err != nil {
		panic(err) // it is one of our own types
	}
	return sha256.Sum256(content)
}
