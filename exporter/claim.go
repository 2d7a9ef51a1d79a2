package exporter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/exporter/membership"
)

// errLost is why a heartbeat isn't sent: another agent works under this cluster's name. claim.suspended says which.
var errLost = errors.New("another agent works under this cluster's name")

// suspended is why nothing is exported from here: another agent works under this cluster's name. The ServiceExports report it.
type suspended struct {
	reason  string // of their condition Ready, and of the Event on the MemberCluster
	message string
}

func (p *suspended) Error() string { return p.message }

// Is makes it one of the cases in which the hub isn't read.
func (p *suspended) Is(target error) bool { return target == errNotSynced }

var (
	suspendedByOther = &suspended{api.ReasonNameTaken, "another cluster is working under this cluster's name on the hub; join each cluster under a name of its own. Nothing is exported from here"}
	suspendedByClone = &suspended{api.ReasonClusterCloned, "another agent with this cluster's identity, name and credentials is running and started earlier; " +
		"if this cluster was restored from a backup of the other, join it under a name of its own. Nothing is exported from here"}
	suspendedBy = map[membership.State]*suspended{membership.Taken: suspendedByOther, membership.Cloned: suspendedByClone}
)

// claim keeps two agents from working under one name. membership decides; claim reads the Lease, writes what it says about clones, and stops
// and starts the exports. Before anything is written, the name must be ours.
type claim struct {
	uid    func(context.Context) (string, error)
	lease  func(context.Context) (*coordinationv1.Lease, error) // nil if there is none
	yields func(ctx context.Context, at string) error           // see sayYields
	tell   func(ctx context.Context, kind, reason, message string)
	report func(context.Context) // makes every ServiceExport report the state

	state atomic.Int32 // the membership.State of the last look
	// name is used by one goroutine at a time: until the name is ours, then by the heartbeat.
	name membership.Name
	// doubtful: a heartbeat can't vouch for any record, because our cache may lack what has become of the hub.
	doubtful bool
}

func (c *claim) is() membership.State { return membership.State(c.state.Load()) }

func (c *claim) held() bool { return c.is().Held() }

// renewing records that the Lease is about to be renewed.
func (c *claim) renewing(at metav1.MicroTime) metav1.MicroTime {
	c.name.Renewing(at.UnixMicro())
	return at
}

// take returns once the name is ours.
func (c *claim) take(ctx context.Context) error {
	tick := time.NewTicker(c.name.Interval)
	defer tick.Stop()
	for {
		err := c.see(ctx)
		if c.held() {
			return nil
		}
		if err != nil && !errors.Is(err, errLost) && ctx.Err() == nil {
			log.FromContext(ctx).WithName("claim").V(1).Info("Can't tell yet whether this cluster's name is free", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// check reads the Lease before it is renewed. It returns errLost if the name isn't ours any more. After any other error, nothing is known
// about the hub, and the Lease must not be renewed, or a restore would go unnoticed.
func (c *claim) check(ctx context.Context) (setBack bool, err error) {
	if !c.held() || !c.name.Confirmed() {
		return false, nil
	}
	err = c.see(ctx)
	return err == nil && c.is() == membership.Restored, err
}

// see looks at the Lease once, and does what follows.
func (c *claim) see(ctx context.Context) (err error) {
	was := c.is()
	if !was.Held() {
		if c.name.Cluster, err = c.uid(ctx); err != nil {
			return err
		}
	}
	lease, err := c.lease(ctx)
	if err != nil {
		return err
	}
	d := c.name.See(shown(lease), time.Now())
	switch d.Write {
	case membership.Yields:
		c.say(ctx, strconv.Quote(time.Now().UTC().Format(time.RFC3339)))
	case membership.NoClone:
		c.say(ctx, "null")
	}
	switch d.Clone {
	case 1:
		c.tell(ctx, corev1.EventTypeWarning, api.ReasonClusterCloned, "another cluster uses this cluster's identity, name and credentials, probably because it "+
			"was restored from this one's backup. Its agent started later and exports nothing; join it under a name of its own")
	case -1:
		c.tell(ctx, corev1.EventTypeNormal, "CloneGone", "no other cluster works under this cluster's name any more")
	}
	c.state.Store(int32(d.State))
	why := suspendedBy[d.State]
	switch {
	case d.State.Held():
		metricNameTaken.Set(0)
		if was == membership.Taken || was == membership.Cloned {
			log.FromContext(ctx).WithName("claim").Info("The other agent is silent, taking over this cluster's name")
		}
		return nil
	case why != nil && d.State != was:
		metricNameTaken.Set(1)
		c.tell(ctx, corev1.EventTypeWarning, why.reason, why.message)
		c.report(ctx)
	}
	return errLost
}

// unheard returns why the hub isn't read: it hasn't been read yet, or another agent works under this cluster's name.
func (c *claim) unheard() error {
	if why := suspendedBy[c.is()]; why != nil {
		return why
	}
	return errNotSynced
}

// shown returns what a Lease shows of who renews it.
func shown(lease *coordinationv1.Lease) membership.Lease {
	if lease == nil {
		return membership.Lease{}
	}
	of := lease.Annotations
	l := membership.Lease{Found: true, Cluster: of[api.AnnotationClusterUID], Run: of[api.AnnotationRun], Yields: of[api.AnnotationYields]}
	l.Started, _ = time.Parse(time.RFC3339Nano, of[api.AnnotationStarted])
	if t := lease.Spec.RenewTime; t != nil {
		l.Renewed = t.UnixMicro()
	}
	return l
}

// say records in the Lease that we yield. at is a time as JSON, or null.
func (c *claim) say(ctx context.Context, at string) {
	if err := c.yields(ctx, at); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).WithName("claim").Info("Can't report on the hub that this cluster has a clone, trying again", "reason", err.Error())
	}
}

// sayYields returns a function that writes that on the hub, without changing what the Lease's holder writes.
func sayYields(hub client.Client, cluster string) func(context.Context, string) error {
	return func(ctx context.Context, at string) error {
		ctx, cancel := context.WithTimeout(ctx, hubTimeout)
		defer cancel()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationYields+`":`+at+`}}}`))
		return hub.Patch(ctx, lease, patch, client.FieldOwner(api.FieldManagerExporter))
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
