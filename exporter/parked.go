package exporter

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/api"
)

// parked is why nothing is exported from here: another agent works under this cluster's name. The ServiceExports report it.
type parked struct {
	reason  string // of their condition Ready, and of the Event on the MemberCluster
	message string
}

func (p *parked) Error() string { return p.message }

// Is makes it one of the cases in which the hub isn't read.
func (p *parked) Is(target error) bool { return target == errNotSynced }

var (
	parkedByOther = &parked{api.ReasonNameTaken, errNameTaken.Error() + ". Nothing is exported from here"}
	parkedByClone = &parked{api.ReasonClusterCloned, errCloned.Error() + ". Nothing is exported from here"}
)

// rival is what is known of another agent that renews the Lease.
type rival struct {
	clone bool // it has our identity
	alive bool // it has renewed the Lease while we looked
}

// patience is how many heartbeats a rival must be silent before its name is ours.
var patience = map[rival]int{
	{clone: false, alive: false}: 4,
	{clone: false, alive: true}:  4,
	{clone: true, alive: false}:  3, // a running one is heard within two; from four on, the hub marks us Suspect
	{clone: true, alive: true}:   yieldFor,
}

// park stops all exports, and makes the ServiceExports report why.
func (c *claim) park(ctx context.Context, clone bool) {
	why := parkedByOther
	if clone {
		why = parkedByClone
	}
	if c.parked.Swap(why) == why {
		return
	}
	c.held.Store(false)
	metricNameTaken.Set(1)
	c.tell(ctx, corev1.EventTypeWarning, why.reason, why.message)
	c.report(ctx)
}

// mine starts the exports.
func (c *claim) mine() {
	c.parked.Store(nil)
	c.held.Store(true)
	metricNameTaken.Set(0)
}

// unheard returns why the hub isn't read: it hasn't been read yet, or another agent works under this cluster's name.
func (c *claim) unheard() error {
	if why := c.parked.Load(); why != nil {
		return why
	}
	return errNotSynced
}
