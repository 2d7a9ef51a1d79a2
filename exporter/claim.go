package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter/membership"
)

// errLost is why a heartbeat isn't sent: another agent holds this cluster's name.
var errLost = errors.New("another agent holds this cluster's name")

// suspended is why nothing is exported from here: another agent holds this cluster's name. The ServiceExports report it.
type suspended struct {
	reason  string // of their condition Ready, and of the Event on the MemberCluster
	message string
}

func (p *suspended) Error() string { return p.message }

// Is makes it one of the cases in which the hub isn't read.
func (p *suspended) Is(target error) bool { return target == errNotSynced }

// claim keeps two agents from working under one name (rule C26 of docs/spec/control-plane.md). membership decides; claim reads and writes the
// Lease, and stops and starts the exports. One goroutine uses it, apart from held and unheard.
type claim struct {
	cluster, run string
	interval     time.Duration // of heartbeats
	live         client.Reader // of the hub itself
	hub          client.Writer
	uid          func(context.Context) string      // of the cluster, empty if unknown
	say          func(context.Context, *suspended) // makes it known

	ours  atomic.Bool
	taken atomic.Pointer[suspended] // nil: not for long

	wait membership.Wait
	hold membership.Hold
	last *coordinationv1.Lease // as it is on the hub; nil: it must be read
}

func (c *claim) held() bool { return c.ours.Load() }

// unheard returns why the hub isn't read: it hasn't been read yet, or another agent holds this cluster's name.
func (c *claim) unheard() error {
	if why := c.taken.Load(); why != nil {
		return why
	}
	return errNotSynced
}

// take returns once the name is ours, or ctx ends.
func (c *claim) take(ctx context.Context) {
	logger, said := log.FromContext(ctx).WithName("claim"), ""
	tick := time.NewTicker(c.interval / membership.PerInterval)
	defer tick.Stop()
	for {
		if err := c.try(ctx); err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			logger.Info("Can't tell yet whether this cluster's name is free", "reason", said)
		}
		if c.held() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// try reads the Lease, and takes the name if it is free.
func (c *claim) try(ctx context.Context) error {
	lease, err := c.get(ctx)
	if err != nil {
		c.wait.Unanswered()
		return err
	}
	is, own := shown(lease), c.uid(ctx)
	cluster, run, _ := strings.Cut(is.Holder, "/")
	ours := own != "" && cluster == own
	if run != c.run && !c.wait.See(is, ours) { // this run's, if the answer was lost when the name was taken
		if c.wait.Long(ours) {
			c.suspend(ctx)
		}
		return nil
	}
	c.last, c.hold = lease, membership.Hold{Holder: own + "/" + c.run}
	now := metav1.NowMicro()
	if err := c.write(ctx, func(s *coordinationv1.LeaseSpec) {
		s.AcquireTime, s.LeaseTransitions = &now, new(ptr.Deref(s.LeaseTransitions, -1)+1)
	}); err != nil {
		return err
	}
	c.ours.Store(true)
	if c.taken.Swap(nil) != nil {
		log.FromContext(ctx).WithName("claim").Info("The other agent is silent, taking over this cluster's name")
	}
	metricNameTaken.Set(0)
	return nil
}

// suspend says, once, that another agent holds the name.
func (c *claim) suspend(ctx context.Context) {
	why := &suspended{api.ReasonNameTaken, "another agent holds this cluster's name on the hub: that of another cluster, or of one that was restored from the same " +
		"backup; join one of them under a name of its own. Nothing is exported from here until the other has been silent for five minutes"}
	if c.taken.CompareAndSwap(nil, why) {
		metricNameTaken.Set(1)
		c.say(ctx, why)
	}
}

// check reads the Lease if that is needed, and returns whether the hub was restored, or errLost. After any other error, nothing is known about
// the hub, and the Lease must not be renewed.
func (c *claim) check(ctx context.Context) (restored bool, err error) {
	if c.last != nil {
		return false, nil
	}
	lease, err := c.get(ctx)
	if err != nil {
		return false, err
	}
	verdict := c.hold.See(shown(lease))
	if verdict == membership.Lost {
		c.ours.Store(false)
		c.wait = membership.Wait{}
		return false, errLost
	}
	c.last = lease
	return verdict == membership.Restored, nil
}

// renew renews the Lease that was read or written last.
func (c *claim) renew(ctx context.Context) error {
	now := metav1.NowMicro()
	return c.write(ctx, func(s *coordinationv1.LeaseSpec) { s.RenewTime = &now })
}

// release lets a successor take over at once, if the hub answers soon.
func (c *claim) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubTimeout)
	defer cancel()
	if !c.held() {
		return
	}
	if _, err := c.check(ctx); err == nil {
		c.hold.Holder = ""
		_ = c.write(ctx, func(*coordinationv1.LeaseSpec) {})
	}
}

// get reads the Lease, which is empty if there is none.
func (c *claim) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	lease, key := &coordinationv1.Lease{}, client.ObjectKey{Namespace: api.MemberNamespace(c.cluster), Name: api.HeartbeatLease}
	if err := c.live.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Lease %s: %w", key, err)
	}
	return lease, nil
}

// write writes the Lease as it was last, with a change. Without a version it is created: a POST, which doesn't have its name, isn't allowed to
// members. What somebody else, such as a thief of the token, left in its metadata goes (S59 of docs/security.md).
func (c *claim) write(ctx context.Context, change func(*coordinationv1.LeaseSpec)) error {
	was, holder := c.last, c.hold.Holder
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.MemberNamespace(c.cluster), Name: api.HeartbeatLease, ResourceVersion: was.ResourceVersion, UID: was.UID,
		Labels: map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: c.cluster},
		// The API server adds the time, by its clock, by which clusterset status tells a wrong clock from silence.
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: api.FieldManagerExporter, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: coordinationv1.SchemeGroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`),
		}},
	}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: new(int32(4 * c.interval / time.Second)),
		AcquireTime: was.Spec.AcquireTime, RenewTime: was.Spec.RenewTime, LeaseTransitions: was.Spec.LeaseTransitions,
	}}
	change(&next.Spec)
	c.last = nil
	c.hold.Writing(shown(next).Renewed)
	if err := c.hub.Update(ctx, next, client.FieldOwner(api.FieldManagerExporter)); err != nil {
		return fmt.Errorf("update Lease %s: %w", client.ObjectKeyFromObject(next), err)
	}
	c.hold.Wrote()
	c.last = next
	return nil
}

// shown returns what a Lease shows of its holder.
func shown(lease *coordinationv1.Lease) membership.Lease {
	l := membership.Lease{Version: lease.ResourceVersion, Holder: ptr.Deref(lease.Spec.HolderIdentity, "")}
	if t := lease.Spec.RenewTime; t != nil {
		l.Renewed = t.UnixMicro()
	}
	return l
}
