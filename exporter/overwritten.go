package exporter

import (
	"hash/maphash"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// rewriteEvery is the least time between two writes of a service's records, or of its ServiceExport's conditions, that are only needed because
// someone else changed them.
const rewriteEvery = time.Second

// written distinguishes records that must be written because something changed here from records that someone else has
// changed on the hub. The latter are restored at once the first time. If they are changed again, most likely a clone does it
// (see package membership), and each of our writes would cause one of its own, as fast as the hub allows. So from then on they are
// restored once a second, and the Lease is checked.
type written struct {
	from      uint64    // see versionOf
	rewritten time.Time // when it was last written although nothing had changed here
}

// ask is called if a service's records aren't what they should be. others means that someone else changed them, and wait is how
// long to leave them.
func (w written) ask(src Source, want Desired, firstPassDone bool) (others bool, wait time.Duration) {
	known := w != written{}
	// A record of a service that isn't exported here and that we never wrote is an orphan in the first pass, and someone else's
	// after it.
	others = known && w.from == versionOf(src, want) || !known && want.Service == nil && firstPassDone
	if !others {
		return false, 0
	}
	return true, max(rewriteEvery-time.Since(w.rewritten), 0)
}

// note records that the hub now has what it should. again means that someone else has changed it more than once lately.
func (w *written) note(src Source, want Desired, others bool) (again bool) {
	now := written{from: versionOf(src, want)} // zero if it isn't exported
	if others {
		now.rewritten = time.Now()
		again = now.rewritten.Sub(w.rewritten) < time.Minute
	}
	*w = now
	return again
}

// toldConditions is what was last written of a ServiceExport's conditions. Another MCS implementation beside ours writes the same ones, and each of
// our writes may cause one of its own. So they are restored like records. Rule C79 of docs/spec/control-plane.md.
type toldConditions struct {
	says     uint64    // see versionOfConditions
	restored time.Time // when they were last written although they say the same
	others   time.Time // when what other clusters change was last written alone
}

// ourConditions are those of a ServiceExport that are the exporter's.
var ourConditions = sets.New(
	string(mcsv1beta1.ServiceExportConditionValid), string(mcsv1beta1.ServiceExportConditionReady), string(mcsv1beta1.ServiceExportConditionConflict),
	api.ConditionVisible, api.ConditionReachable, api.ConditionImported, api.ConditionComplete,
)

// versionOfConditions identifies what our conditions of a ServiceExport say.
func versionOfConditions(export *mcsv1beta1.ServiceExport) uint64 {
	sum := maphash.String(versionSeed, string(export.UID))
	for _, c := range export.Status.Conditions {
		if ourConditions.Has(c.Type) {
			c.LastTransitionTime = metav1.Time{}
			sum += maphash.Comparable(versionSeed, c)
		}
	}
	return sum
}

var versionSeed = maphash.MakeSeed()

// versionOf identifies the input of a service's records, whatever the order of its slices. 0 means no records.
func versionOf(src Source, want Desired) (sum uint64) {
	if want.Service == nil {
		return 0
	}
	add := func(o metav1.Object) {
		sum += maphash.String(versionSeed, string(o.GetUID())+" "+o.GetResourceVersion())
	}
	sum = 1
	if src.Service != nil { // nil for one that may be replaced
		add(src.Service)
	}
	if src.Export != nil { // nil for a withdrawal that is held
		add(src.Export)
	}
	for i := range src.Slices {
		add(&src.Slices[i])
	}
	for i := range want.external { // they change with the nodes, names and the cluster's networks
		for _, at := range want.external[i].Spec.Endpoints {
			sum += maphash.String(versionSeed, want.external[i].Name+" "+ptr.Deref(at.Zone, "")+" "+strings.Join(at.Addresses, " "))
		}
	}
	return sum
}
