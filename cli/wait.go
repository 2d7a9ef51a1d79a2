package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/view"
)

// waiting is the --wait and --timeout of a command.
type waiting struct {
	wait    bool
	timeout time.Duration
}

// addFlags adds the flags. until says what is waited for.
func (w *waiting) addFlags(flags *pflag.FlagSet, until string) {
	flags.BoolVar(&w.wait, "wait", w.wait, "wait until "+until)
	flags.DurationVar(&w.timeout, "timeout", 5*time.Minute, "with --wait: how long to wait, before it fails and says what is missing")
}

// until returns once look finds that nothing is missing; it says what is in a sentence. Its first error is returned at once, because it is most
// likely the user's; later ones count as missing: the API server may be back in time.
func (w waiting) until(ctx context.Context, look func(context.Context) (missing string, err error)) error {
	var missing string
	err := wait.PollUntilContextTimeout(ctx, time.Second, w.timeout, true, func(within context.Context) (bool, error) {
		now, err := look(within)
		switch {
		case err != nil && missing == "":
			return false, err
		case within.Err() != nil:
			return false, nil //nolint:nilerr // the look was cut short
		case err != nil:
			now = err.Error()
		}
		missing = now
		return missing == "", nil
	})
	if missing != "" && ctx.Err() == nil {
		return fmt.Errorf("gave up after %s: %s", w.timeout, missing)
	}
	return err
}

// followed waits until every member that the hub hears, other than the one that is changed, acts on the drains and leaves of the hub's
// MemberClusters (C76).
func (w waiting) followed(ctx context.Context, hub *objects.Cluster, changed string) error {
	return w.until(ctx, func(ctx context.Context) (string, error) { return behind(ctx, hub, changed) })
}

// behind says which members are Ready and don't act on what the hub's MemberClusters say, and why.
func behind(ctx context.Context, hub *objects.Cluster, changed string) (string, error) {
	members, err := hub.MemberClusters(ctx)
	if err != nil {
		return "", err
	}
	heard, err := view.Heartbeats(ctx, hub)
	switch {
	case err != nil:
		return "", err
	case heard == nil:
		return "", fmt.Errorf("can't wait: the account may not read the Leases and MemberReports on the hub at %s; use an administrator's", hub.Server)
	}
	want := clustersetv1alpha1.DrainsAndLeaves(members)
	var slow, stuck []string
	for i := range members {
		m := &members[i]
		if m.Name != changed && !m.Left() && m.Status.Phase == clustersetv1alpha1.MemberReady && heard[m.Name].Follows != want {
			if other := heard[m.Name].CantFollow; other != "" {
				is := view.NotFollowing(m.Name, other)
				stuck = append(stuck, fmt.Sprintf("%s can't follow: %s; %s", m.Name, is.Message, is.Cure))
			} else {
				slow = append(slow, m.Name)
			}
		}
	}
	slices.Sort(slow)
	slices.Sort(stuck)
	if len(slow) > 0 {
		text := "agents haven't followed the change yet, of " + strings.Join(slow, ", ") + "; read their logs, or wait longer with --timeout"
		stuck = append([]string{text}, stuck...)
	}
	return strings.Join(stuck, "; "), nil
}
