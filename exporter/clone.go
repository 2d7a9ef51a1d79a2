package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// errCloned is why an exporter pauses.
var errCloned = errors.New("another agent with this cluster's identity, name and credentials is running and started earlier; " +
	"if this cluster was restored from a backup of the other, join it under a name of its own")

// A clone is a cluster that was restored from another's etcd while that one is still running. Both have the same kube-system
// UID, name and credentials, and would overwrite each other's records forever. They differ in the run ID that each writes into
// the Lease. After a restart, a rollout or a change of leader, the earlier run never writes again, and what a restored hub
// shows is old. So if a run's renewals keep appearing between ours, it is running at the same time. Both agents compare the same
// two start times in the Lease. If clocks are wrong, they may agree on the wrong agent as the later one, but never on both or
// neither.
const (
	// cloneRenewals is how many renewals by another run, each newer than the one before, prove a clone. Requests of our
	// predecessor that were under way, or that it made after a pause, are fewer.
	cloneRenewals = 3
	// yieldFor is how many heartbeats the earlier agent must be silent before the later one takes over: five minutes by
	// default, when the hub marks the cluster Expired. A restart of the earlier one is shorter.
	yieldFor = 30
	// sayEvery is how often, in heartbeats, a yielding agent says so in the Lease. If it hasn't for yieldFor, the clone is
	// gone.
	sayEvery = 6
)

// other is what is known of another run that renews our Lease.
type other struct {
	last     sighting
	renewals int // each newer than the one before
}

// saw records a renewal by another run and reports whether that run is still alive.
func (o *other) saw(s sighting) (alive bool) {
	switch {
	case s.run != o.last.run:
		o.last, o.renewals = s, 1
	case s.renewed > o.last.renewed:
		o.last = s
		o.renewals++
	}
	return o.renewals >= 2 // the first may be a predecessor's, on a hub that was restored from a backup
}

// startedAfter reports whether we are the later one. If the Lease doesn't say when the other started, because an older version
// wrote it, we aren't.
func (c *claim) startedAfter(lease *coordinationv1.Lease) bool {
	theirs, err := time.Parse(time.RFC3339Nano, lease.Annotations[api.AnnotationStarted])
	if err != nil {
		return false
	}
	if theirs.Equal(c.started) {
		return c.run > lease.Annotations[api.AnnotationRun]
	}
	return c.started.After(theirs)
}

// yield ends the exports and returns once the earlier agent has been silent for long enough. Until then it writes nothing to
// the hub except that it is there.
func (c *claim) yield(ctx context.Context) {
	c.park(ctx, true)
	c.await(ctx, rival{clone: true, alive: true})
}

// hear records what a yielding clone wrote into our Lease, and removes it once that is old.
func (c *claim) hear(ctx context.Context, lease *coordinationv1.Lease) {
	said := ""
	if lease != nil {
		said = lease.Annotations[api.AnnotationYields]
	}
	switch {
	case said == "" && c.clone != "":
		c.tell(ctx, corev1.EventTypeNormal, "CloneGone", "no other cluster works under this cluster's name any more")
	case said != "" && c.clone == "":
		c.tell(ctx, corev1.EventTypeWarning, "ClusterCloned", "another cluster uses this cluster's identity, name and credentials, probably because it "+
			"was restored from this one's backup. Its agent started later and exports nothing; join it under a name of its own")
	}
	switch {
	case said != c.clone:
		c.clone, c.cloneHeard = said, time.Now()
	case said != "" && time.Since(c.cloneHeard) > yieldFor*c.interval:
		c.say(ctx, "null")
	}
}

// say records in the Lease that we yield, without changing what its holder writes. at is a time as JSON, or null.
func (c *claim) say(ctx context.Context, at string) {
	if err := c.yields(ctx, at); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).WithName("claim").Info("Can't report on the hub that this cluster has a clone, trying again", "reason", err.Error())
	}
}

// sayYields returns a function that writes it on the hub.
func sayYields(hub client.Client, cluster string) func(context.Context, string) error {
	return func(ctx context.Context, at string) error {
		ctx, cancel := context.WithTimeout(ctx, hubTimeout)
		defer cancel()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationYields+`":`+at+`}}}`))
		if err := hub.Patch(ctx, lease, patch, client.FieldOwner(api.FieldManagerExporter)); err != nil {
			return fmt.Errorf("patch Lease %s: %w", client.ObjectKeyFromObject(lease), err)
		}
		return nil
	}
}

// tellOf returns a function that logs news about this cluster's name and records it as an Event of its local MemberCluster.
func tellOf(recorder events.EventRecorder, cluster string) func(ctx context.Context, kind, reason, message string) {
	regarding := &clustersetv1alpha1.MemberCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: clustersetv1alpha1.GroupVersion.String(), Kind: "MemberCluster"},
		ObjectMeta: metav1.ObjectMeta{Name: cluster},
	}
	return func(ctx context.Context, kind, reason, message string) {
		log.FromContext(ctx).WithName("claim").Info("About this cluster's name on the hub: " + message)
		recorder.Eventf(regarding, nil, kind, reason, "Claim", "%s", message)
	}
}
