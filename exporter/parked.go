package exporter

import "github.com/clusterset/clusterset/api"

// parked is why nothing is exported from here: another agent works under this cluster's name. The ServiceExports report it.
type parked struct {
	reason  string // of their condition Ready, and of the Event on the MemberCluster
	message string
}

func (p *parked) Error() string { return p.message }

// Is makes it one of the cases in which the hub isn't read.
func (p *parked) Is(target error) bool { return target == errNotSynced }

var (
	parkedByOther = &parked{api.ReasonNameTaken, "another cluster is working under this cluster's name on the hub; join each cluster under a name of its own. Nothing is exported from here"}
	parkedByClone = &parked{api.ReasonClusterCloned, "another agent with this cluster's identity, name and credentials is running and started earlier; " +
		"if this cluster was restored from a backup of the other, join it under a name of its own. Nothing is exported from here"}
)
