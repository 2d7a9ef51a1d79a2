package importer

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
)

// reconciler makes the local objects of one service match its records on the hub.
type reconciler struct {
	options  Options
	hub      hub
	absences *effective.Absences
	clock    clock.PassiveClock
	local    *local
	report   *reporter
	clusters *clusters
	memories *memories
	creating sync.Mutex // of namespaces, so that parallel reconciles don't create more than the limit
	accounts *accounts
	// noGlobals: this cluster lacks the kind GlobalService.
	noGlobals bool
	// labelsOnly and distribution are for each service's desired.Input.
	labelsOnly   bool
	distribution *string
}

func newReconciler(o Options, hub hub, l *local, recorder events.EventRecorder, c clock.WithDelayedExecution) *reconciler {
	memories := newMemories()
	return &reconciler{
		options: o, hub: hub, absences: &effective.Absences{}, clock: c, local: l, report: &reporter{recorder, memories}, clusters: newClusters(c),
		memories: memories, accounts: newAccounts(c, o),
	}
}

// skipGlobal reports whether no GlobalServices are written.
func (r *reconciler) skipGlobal() bool { return r.options.SkipGlobalServices || r.noGlobals }

// round is one reconcile of a service: what it is computed from, what is wanted, and what was decided on the way.
type round struct {
	*reconciler
	alone     bool    // the hub hasn't been read yet
	members   members // the hub's; their copies here until it has been read
	in        desired.Input
	cur       desired.Current // what this cluster has
	own       *corev1.Service // this cluster's own of the service's name, nil if there is none
	out       desired.Output
	withdrawn map[string]int64  // revisions of the records that say so, by cluster
	kept      effective.Outcome // which records are used
	returns   time.Duration     // until a cluster has been back for long enough, 0: none is waited for
	late      bool              // something is still to be done without another event
}

// round begins a reconcile of a service.
func (r *reconciler) round(key types.NamespacedName) *round {
	o := &round{reconciler: r, members: r.hub, in: desired.Input{
		Key: key, DataPath: r.options.DataPath, Cluster: r.options.Cluster, Nodes: r.options.Nodes.Places(), Policy: r.options.Policy,
		Unreachable: r.options.Unreachable, SkipGlobal: r.skipGlobal(), LabelsOnly: r.labelsOnly, Distribution: r.distribution,
	}}
	if !r.hub.HasSynced() {
		o.alone, o.members = true, copies{r.local.cache}
	}
	return o
}
