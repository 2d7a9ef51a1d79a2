package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
)

// errNameTaken is why an exporter stops: another cluster uses the same name and credentials.
var errNameTaken = errors.New("another cluster is working under this cluster's name on the hub; join each cluster under a name of its own")

// claim prevents two clusters from working under one name. `join` refuses a name in use, but credentials can be copied together
// with a cluster's manifests. Each of the two would then remove the other's records as orphans, forever, and neither's names
// would be right.
//
// Before anything is written, the Lease must be ours, or not exist, or belong to a cluster that has stopped renewing it.
type claim struct {
	uid      func(context.Context) (string, error)
	lease    func(context.Context) (*coordinationv1.Lease, error) // nil if there is none
	interval time.Duration                                        // of heartbeats
	run      string                                               // identifies this process
	started  time.Time
	yields   func(ctx context.Context, at string) error // see say
	tell     func(ctx context.Context, kind, reason, message string)
	report   func(context.Context) // makes every ServiceExport report the state

	held   atomic.Bool
	own    atomic.Value           // string, set before held
	parked atomic.Pointer[parked] // why it isn't held; nil if it hasn't been checked yet

	// Only the heartbeat uses these.
	confirmed bool       // whether the Lease has ever been renewed
	wrote     []sighting // the last renewal that the hub has confirmed, if any, and later ones that it may have received
	setBack   *sighting  // the unexpected Lease that was last found

	other      other     // who else renews it
	contested  bool      // whether that agent is running at the same time as this one
	clone      string    // what a yielding clone last wrote, and when that changed
	cloneHeard time.Time // by our clock
}

// sighting identifies one renewal of the Lease. It is zero if there is no Lease.
type sighting struct {
	run     string
	renewed int64 // in microseconds, by the clock of the agent that did
}

func sightingOf(lease *coordinationv1.Lease) sighting {
	if lease == nil {
		return sighting{}
	}
	s := sighting{run: lease.Annotations[api.AnnotationRun]}
	if t := lease.Spec.RenewTime; t != nil {
		s.renewed = t.UnixMicro()
	}
	return s
}

// maxUnconfirmed is how many renewals without an answer are remembered.
const maxUnconfirmed = 32

// renewing records that the Lease is about to be renewed.
func (c *claim) renewing(at metav1.MicroTime) metav1.MicroTime {
	if len(c.wrote) == maxUnconfirmed {
		c.wrote = slices.Delete(c.wrote, 1, 2)
	}
	c.wrote = append(c.wrote, sighting{c.run, at.UnixMicro()})
	return at
}

// renewed records that it was.
func (c *claim) renewed() {
	c.wrote, c.confirmed, c.setBack = c.wrote[len(c.wrote)-1:], true, nil
}

// take returns once the name is ours.
func (c *claim) take(ctx context.Context) error {
	c.await(ctx, rival{})
	return nil
}

// await returns once the name is ours. by is what is known of who has it.
func (c *claim) await(ctx context.Context, by rival) {
	logger := log.FromContext(ctx).WithName("claim")
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	var beat string
	var since time.Time
	for looks := 0; ; looks++ {
		lease, twin, err := c.look(ctx)
		// If a clone has been seen, we may be either of the two: the earlier one, restarted, or the later one.
		by.clone = by.clone || twin && lease != nil && lease.Annotations[api.AnnotationYields] != ""
		switch {
		case err != nil:
			if ctx.Err() == nil {
				logger.V(1).Info("Can't tell yet whether this cluster's name is free", "reason", err.Error())
			}
		case lease == nil || twin && !by.clone:
			c.mine()
			return
		case beat == "":
			logger.Info("Another cluster has used this name, waiting to see whether it still does", "its kube-system UID", holder(lease))
			beat, since = renewal(lease), time.Now()
		case beat != renewal(lease):
			beat, since, by.alive = renewal(lease), time.Now(), true
			c.park(ctx, by.clone)
		case time.Since(since) >= time.Duration(patience[by])*c.interval:
			logger.Info("The other cluster is silent, taking over its name")
			if by == (rival{clone: true, alive: true}) {
				c.say(ctx, "null")
			}
			c.mine()
			return
		}
		if err == nil && by == (rival{clone: true, alive: true}) && looks%sayEvery == 0 {
			c.say(ctx, strconv.Quote(time.Now().UTC().Format(time.RFC3339)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look reads the Lease and reports whether it belongs to a cluster with our identity. If either identity is unknown, it counts
// as ours.
func (c *claim) look(ctx context.Context) (lease *coordinationv1.Lease, twin bool, err error) {
	own, err := c.uid(ctx)
	if err != nil {
		return nil, false, err
	}
	c.own.Store(own)
	if lease, err = c.lease(ctx); err != nil {
		return nil, false, err
	}
	other := holder(lease)
	return lease, own == "" || other == "" || other == own, nil
}

// check reads the Lease before it is renewed. It returns errNameTaken if another cluster has renewed it since we last did, as
// can happen to a cluster that was cut off from the hub for a while, and errCloned if a cluster with our identity renews it all
// the time and started earlier.
//
// setBack means that the Lease isn't the one we last wrote: the hub was restored from a backup. Resource versions don't show
// that, because the restored hub may already have passed the earlier one. It is reported once. It isn't noticed if the backup
// was taken and restored between two of our renewals.
//
// After any other error, nothing is known about the hub. The Lease must not be renewed then, or a restore would go unnoticed.
func (c *claim) check(ctx context.Context) (setBack bool, err error) {
	if !c.held.Load() || !c.confirmed {
		return false, nil
	}
	lease, err := c.lease(ctx)
	if err != nil {
		return false, err
	}
	own, _ := c.own.Load().(string)
	if other := holder(lease); own != "" && other != "" && other != own {
		return false, errNameTaken
	}
	c.hear(ctx, lease)
	now := sightingOf(lease)
	if c.contested = false; slices.Contains(c.wrote, now) {
		return false, nil
	}
	if now.run != "" && now.run != c.run {
		c.contested = c.other.saw(now)
		if c.other.renewals >= cloneRenewals && c.startedAfter(lease) {
			return false, errCloned
		}
	}
	if c.contested || c.setBack != nil && *c.setBack == now {
		return false, nil
	}
	c.setBack = &now
	return true, nil
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return lease.Annotations[api.AnnotationClusterUID]
}

func renewal(lease *coordinationv1.Lease) string {
	if lease.Spec.RenewTime == nil {
		return "never"
	}
	return lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
}

// clusterUID returns a function that reads the member's identity. It is empty if it can't be read, which turns the check off.
func clusterUID(member client.Reader) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, localTimeout)
		defer cancel()
		var ns corev1.Namespace
		err := member.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns)
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("get Namespace %s: %w", metav1.NamespaceSystem, err)
		}
		return string(ns.UID), nil
	}
}

// readLease returns a function that reads the member's Lease on the hub.
func readLease(hub client.Reader, cluster string) func(context.Context) (*coordinationv1.Lease, error) {
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}
	return func(ctx context.Context) (*coordinationv1.Lease, error) {
		ctx, cancel := context.WithTimeout(ctx, hubTimeout)
		defer cancel()
		var lease coordinationv1.Lease
		switch err := hub.Get(ctx, key, &lease); {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("get Lease %s: %w", key, err)
		}
		return &lease, nil
	}
}
