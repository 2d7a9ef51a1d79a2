package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/cli/objects"
)

// reached is a cluster that join or leave changes, with what error messages say about it.
type reached struct {
	*objects.Cluster
	config *rest.Config
}

// openBoth returns the hub, and the member if the command changes it too. It contacts neither yet.
func openBoth(c clusters) (hub, member *reached, err error) {
	c.timeout = 30 * time.Second
	config, err := c.hub()
	if err != nil {
		return nil, nil, err
	}
	if hub, err = reach(config, "hub", hubFlags, "use the kubeconfig of an administrator of the hub"); err != nil {
		return nil, nil, err
	}
	if !c.hasLocal() {
		return hub, nil, nil
	}
	if config, err = c.local(); err != nil {
		return nil, nil, err
	}
	member, err = reach(config, "member", localFlags, "use the kubeconfig of an administrator of the member")
	return hub, member, err
}

func reach(config *rest.Config, what, flags, rights string) (*reached, error) {
	cluster, err := objects.Open(config, what, flags)
	if err != nil {
		return nil, err
	}
	cluster.Rights = rights
	return &reached{cluster, config}, nil
}

// explain adds what to do about an error of the hub.
func (r *reached) explain(err error) error {
	if errors.Is(err, join.ErrNotTheHub) {
		return fmt.Errorf("the cluster at %s can't be the hub: %w; check %s", r.Server, join.ErrNotTheHub, r.Flags)
	}
	return r.Explain(err)
}

// checkMember checks that a member can be reached and is the intended one.
func checkMember(ctx context.Context, member *reached, secret types.NamespacedName, name string) error {
	is, err := join.MemberName(ctx, member, secret)
	if err != nil {
		return member.Words(err)
	}
	if is != "" && is != name {
		return fmt.Errorf("the member at %s is %s, not %s: its Secret %s says so; check %s, or run clusterset leave %[2]s first", member.Server, is, name, secret, member.Flags)
	}
	return nil
}

// writes returns the cluster for what is written there.
func (r *reached) writes() join.Server { return join.Server{Config: r.config, Client: r.Client} }
