package exporter

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// states remembers the services that something is known of. Each is reconciled by one worker at a time, which alone uses its state.
type states struct {
	mu sync.Mutex
	of map[types.NamespacedName]*serviceState
}

func (s *states) get(key types.NamespacedName) *serviceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[key] == nil {
		if s.of == nil {
			s.of = map[types.NamespacedName]*serviceState{}
		}
		s.of[key] = &serviceState{}
	}
	return s.of[key]
}

// tidy forgets a service of which nothing is known any more.
func (s *states) tidy(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *s.of[key] == (serviceState{}) {
		delete(s.of, key)
	}
}

// known returns the services that something is known of.
func (s *states) known() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.of))
}

// serviceState is what is remembered of a service from one reconcile to the next.
type serviceState struct {
	failing  since // to write its records
	refusing since // the hub, to take them
	missing  since // its Service, while its ServiceExport may still exist
	revision int64 // of its record, as this process wrote it last
	exported bool  // that record, on the hub or as it was last seen there, isn't withdrawn
	wrote    written
	told     toldConditions
	counted  entry
}

// lost reports whether the hub lacks a record that importers may need to hear from, of a service that isn't exported any more: somebody deleted it, or
// the hub was restored.
func (r *serviceState) lost(now time.Time) bool {
	return r.exported || r.revision >= now.Add(-withdrawnFor).UnixMilli()
}

// rewriteEvery is the least time between two writes of a service's records, or of its ServiceExport's conditions, that are only needed because
// someone else changed them (rule C79 of docs/spec/control-plane.md).
const rewriteEvery = time.Second

// written is what was written last of a service's records.
type written struct {
	says uint64 // see fingerprint
	at   time.Time
}

var seed = maphash.MakeSeed()

// fingerprint identifies records. It isn't 0.
func fingerprint(want Desired) uint64 {
	content, err := json.Marshal([]any{want.Service, want.Endpoints})
	if err != nil {
		panic(err) // they are sent to the hub as JSON, too
	}
	return maphash.Bytes(seed, content) | 1
}

// toldConditions is what was written last of a ServiceExport's conditions. Another MCS implementation beside ours writes the same ones, and each of
// our writes may cause one of its own.
type toldConditions struct {
	says     uint64    // see fingerprintOfConditions
	restored time.Time // when they were last written although they say the same
}

// ourConditions are those of a ServiceExport that are the exporter's.
var ourConditions = sets.New(
	string(mcsv1beta1.ServiceExportConditionValid), string(mcsv1beta1.ServiceExportConditionReady), string(mcsv1beta1.ServiceExportConditionConflict),
	api.ConditionVisible, api.ConditionReachable, api.ConditionImported, api.ConditionComplete,
)

// fingerprintOfConditions identifies what our conditions of a ServiceExport say.
func fingerprintOfConditions(export *mcsv1beta1.ServiceExport) uint64 {
	sum := maphash.String(seed, string(export.UID))
	for _, c := range export.Status.Conditions {
		if ourConditions.Has(c.Type) {
			c.LastTransitionTime = metav1.Time{}
			sum += maphash.Comparable(seed, c)
		}
	}
	return sum
}

// since is when something that still is so began.
type since struct{ time.Time }

// note records whether it is so, and returns for how long it has been.
func (s *since) note(is bool) time.Duration {
	if !is {
		*s = since{}
		return 0
	}
	if s.IsZero() {
		s.Time = time.Now()
	}
	return time.Since(s.Time)
}

// state of a ServiceExport, a label value of clusterset_exporter_services.
type state string

const (
	stateExported state = "exported"
	stateRefused  state = "refused"
	stateFailed   state = "failed"
	statePending  state = "pending"
	stateHeld     state = "held"
)

// entry is what one service adds to the gauges. Each reconcile replaces it, so no pass over everything is needed.
type entry struct {
	state     state
	endpoints int
	leftOut   int
	conflict  bool
}

// replace replaces it in the gauges.
func (e *entry) replace(now entry) {
	if now != *e {
		now.add(1)
		e.add(-1)
		*e = now
	}
}

func (e entry) add(times float64) {
	if e.state != "" {
		metricServices.WithLabelValues(string(e.state)).Add(times)
	}
	metricEndpoints.Add(times * float64(e.endpoints))
	metricLeftOut.Add(times * float64(e.leftOut))
	if e.conflict {
		metricConflicts.Add(times)
	}
}
