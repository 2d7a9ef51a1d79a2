// Package join makes a cluster a member of a hub, and undoes that: it implements `clusterset join` and `leave`.
//
// A membership is a MemberCluster, a namespace for the member, and a ServiceAccount in it that may write our records and one
// Lease there and read our API group and the members' Leases everywhere, and nothing else. The member has a token of that account, bound to it and
// expiring, in a kubeconfig in a Secret. Its agent renews the token and the Secret long before it expires (package connect).
// Deleting the account revokes all tokens at once.
package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/dryrun"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/schema"
)

// ErrNameInUse is why a name is refused: two clusters with one name would overwrite each other's records.
var ErrNameInUse = errors.New("the name is in use")

// Options describe the cluster that joins.
type Options struct {
	// Cluster is its name in the set.
	Cluster string
	// Spec is its location, networks and communities. What it leaves out is, with Rejoin, as it was.
	Spec clustersetv1alpha1.MemberClusterSpec
	// TokenLifetime is how long its token is valid. The hub's API server may limit it. Default if zero: access.DefaultTokenLifetime.
	TokenLifetime time.Duration
	// Server is the hub's address as the member reaches it. Default: the address in Join's configuration.
	Server string
	// Joined is when the cluster joined a hub that has since lost its MemberCluster, so that its exports keep their age
	// (Recall). If zero, it joins now. An existing MemberCluster keeps its time.
	Joined time.Time
	// Previous is what that MemberCluster said, which Rejoin takes where these options say nothing.
	Previous clustersetv1alpha1.MemberClusterSpec
	// Rejoin reuses an existing membership, made by hand or by an interrupted join, and gives it a new token.
	Rejoin bool
	// Revoke, with Rejoin, invalidates every earlier token of the member, including stolen ones. Its agent is cut off until it
	// has the new one; names are still answered.
	Revoke bool
}

// Lifetime returns how long a token to request.
func (o Options) Lifetime() time.Duration {
	return cmp.Or(o.TokenLifetime, access.DefaultTokenLifetime)
}

// Validate returns what is wrong with the options, for the person who typed them.
func (o Options) Validate() error {
	if err := api.CheckMemberName(o.Cluster); err != nil {
		return fmt.Errorf("cluster name %q %w", o.Cluster, err)
	}
	if o.Lifetime() < connect.MinTokenLifetime {
		return fmt.Errorf("--token-lifetime is %s; it must be at least %s", o.Lifetime(), connect.MinTokenLifetime)
	}
	if o.Revoke && !o.Rejoin {
		return errors.New("--revoke requires --rejoin")
	}
	return memberCluster(o).Validate().ToAggregate()
}

// Server is an API server that is changed, with the rights of an administrator.
type Server struct {
	Config *rest.Config
	Client client.Client // default: one for the configuration
}

// At returns the API server of a configuration.
func At(config *rest.Config) Server { return Server{Config: config} }

func (s Server) client() (client.Client, error) {
	if s.Client != nil {
		return s.Client, nil
	}
	return connect.NewClient(s.Config)
}

// Join makes a cluster a member of the hub and returns a kubeconfig for its agent. The options must be valid, and the hub no member.
//
// The MemberCluster is created first, which takes the name: of two joins with one name, one fails before it has done anything.
// After a join that is interrupted later, use Rejoin or Leave.
func Join(ctx context.Context, hub Server, o Options) (kubeconfig []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("join %s: %w", o.Cluster, err)
		}
	}()
	c, err := hub.client()
	if err != nil {
		return nil, err
	}
	if !dryrun.InstallsKinds(c) {
		if err := schema.CheckHub(ctx, hub.Config); err != nil {
			return nil, err
		}
	}
	mc, err := takeName(ctx, c, o) // its networks may be from an earlier join
	if err != nil {
		return nil, err
	}
	if o.Revoke {
		// Tokens belong to one account and not to its name, so they end with it.
		if err := remove(ctx, c, access.ServiceAccount(o.Cluster)); err != nil {
			return nil, fmt.Errorf("revoke its tokens: %w", err)
		}
	}
	for _, obj := range append(access.Objects(o.Cluster, api.ManagedByJoin), access.Networks(o.Cluster, &mc.Spec), access.ClusterRoleBinding(o.Cluster)) {
		if err := ensure(ctx, c, obj); err != nil {
			return nil, halfDone(err)
		}
	}
	token, err := connect.RequestToken(ctx, c, o.Cluster, o.Lifetime())
	if err != nil {
		return nil, halfDone(err)
	}
	return connect.Kubeconfig(hub.Config, o.Server, o.Cluster, token)
}

func halfDone(err error) error {
	return fmt.Errorf("%w (join again with --rejoin, or undo what was done with clusterset leave)", err)
}

// takeName creates the MemberCluster, and returns it. It refuses if there is one, or if its namespace exists without it.
//
// The name of a cluster that has left is free, whatever is left of it: its MemberCluster, which is only kept for others to see
// (api.MemberFinalizer), and its namespace if Leave hasn't been called.
func takeName(ctx context.Context, c client.Client, o Options) (*clustersetv1alpha1.MemberCluster, error) {
	left, err := removeLeft(ctx, c, o.Cluster)
	if err != nil {
		return nil, err
	}
	if left != nil {
		o.Previous = left.Spec
	}
	ns := access.Namespace(o.Cluster)
	switch found, err := get(ctx, c, ns); {
	case err != nil:
		return nil, err
	case found && ns.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%w: namespace %s of an earlier member is still being deleted; try again in a moment", ErrNameInUse, ns.Name)
	case found && !o.Rejoin && left == nil:
		return nil, inUse(o.Cluster, "namespace "+ns.Name)
	}

	want := memberCluster(o)
	err = c.Create(ctx, want, client.FieldOwner(api.FieldManagerCLI))
	switch {
	case err == nil:
		return want, nil
	case absent(err):
		return nil, errors.New("the hub doesn't know MemberCluster; install clusterset's CRDs there with --install-crds")
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("create MemberCluster %s: %w", o.Cluster, err)
	case !o.Rejoin:
		return nil, inUse(o.Cluster, "MemberCluster "+o.Cluster)
	}
	mc := &clustersetv1alpha1.MemberCluster{}
	return mc, again("update MemberCluster "+o.Cluster, func() error {
		*mc = clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: o.Cluster}}
		_, err := controllerutil.CreateOrUpdate(ctx, c, mc, func() error {
			mc.Labels = labels.Merge(mc.Labels, want.Labels, nil)
			controllerutil.AddFinalizer(mc, api.MemberFinalizer)
			mc.Spec = o.over(mc.Spec)
			return nil
		})
		return err
	})
}

func inUse(cluster, what string) error {
	return fmt.Errorf("%w: %s exists on the hub; if it is this cluster's, use --rejoin; if not, choose another name, or remove the other cluster with clusterset leave %s",
		ErrNameInUse, what, cluster)
}

// removeLeft removes the MemberCluster of a cluster that has left, and returns it, nil if there was none. First it removes what the cluster still
// has on the hub: perhaps no hub process has run since, and one that comes back would take it for the new member's.
func removeLeft(ctx context.Context, c client.Client, cluster string) (was *clustersetv1alpha1.MemberCluster, err error) {
	was = &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	found, err := get(ctx, c, was)
	if err != nil || !found || !was.Left() && was.DeletionTimestamp == nil { // without the kind, creating it says what to do
		return nil, err
	}
	if err := removeRights(ctx, c, cluster); err != nil {
		return nil, err
	}
	if err := removeRecords(ctx, c, cluster); err != nil {
		return nil, err
	}
	if err := remove(ctx, c, was.DeepCopy()); err != nil { // leave may have been interrupted
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
		if found, err := get(ctx, c, mc); err != nil || !found || mc.UID != was.UID {
			return true, err
		}
		if err := access.Release(ctx, client.WithFieldOwner(c, api.FieldManagerCLI), mc); err != nil && !apierrors.IsConflict(err) {
			return false, err
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w: MemberCluster %s of the cluster that left is still there; kubectl get membercluster %[2]s -o yaml shows which finalizer keeps it", ErrNameInUse, cluster)
	}
	return was, err
}

// outrun reports whether someone else was faster: another join, because all members share one ClusterRole, or the hub process.
func outrun(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }

// ensure creates an object, or corrects the one that is there.
func ensure(ctx context.Context, c client.Client, want client.Object) error {
	return again("create "+access.KindOf(c, want)+" "+access.NameOf(want), func() error {
		have := want.DeepCopyObject().(client.Object)
		_, err := controllerutil.CreateOrUpdate(ctx, c, have, func() error {
			have.SetLabels(labels.Merge(have.GetLabels(), want.GetLabels(), nil))
			access.Restore(have, want)
			return nil
		})
		return err
	})
}

// again writes until nobody else is faster.
func again(what string, write func() error) error {
	if err := retry.OnError(retry.DefaultRetry, outrun, write); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// get reads the object of a name and reports whether it is there.
func get(ctx context.Context, c client.Client, obj client.Object) (found bool, err error) {
	name := access.NameOf(obj)
	switch err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); {
	case err == nil:
		return true, nil
	case absent(err):
		return false, nil
	default:
		return false, fmt.Errorf("get %s %s: %w", access.KindOf(c, obj), name, err)
	}
}

// remove deletes an object if it is there.
func remove(ctx context.Context, c client.Client, obj client.Object) error {
	if err := c.Delete(ctx, obj); err != nil && !absent(err) {
		return fmt.Errorf("delete %s %s: %w", access.KindOf(c, obj), access.NameOf(obj), err)
	}
	return nil
}

// removeIf is remove for an object that is ours. Another owner's object of the same name stays.
func removeIf(ctx context.Context, c client.Client, obj client.Object, ours func(client.Object) bool) error {
	if found, err := get(ctx, c, obj); err != nil || !found || !ours(obj) {
		return err
	}
	return remove(ctx, c, obj)
}

func memberCluster(o Options) *clustersetv1alpha1.MemberCluster {
	mc := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: o.Cluster, Labels: access.Managed(o.Cluster), Finalizers: []string{api.MemberFinalizer}},
	}
	if !o.Rejoin {
		o.Previous = clustersetv1alpha1.MemberClusterSpec{}
	}
	mc.Spec = o.over(o.Previous)
	if !o.Joined.IsZero() {
		mc.Annotations = map[string]string{api.AnnotationJoined: o.Joined.UTC().Format(time.RFC3339)}
	}
	return mc
}

// over returns a spec with what the options say in place of what it said; the rest, which may have been set by hand, stays.
func (o Options) over(spec clustersetv1alpha1.MemberClusterSpec) clustersetv1alpha1.MemberClusterSpec {
	spec.Zone, spec.Region, spec.Network = cmp.Or(o.Spec.Zone, spec.Zone), cmp.Or(o.Spec.Region, spec.Region), cmp.Or(o.Spec.Network, spec.Network)
	for _, list := range []struct{ want, have *[]string }{
		{&o.Spec.CIDRs, &spec.CIDRs}, {&o.Spec.ExternalCIDRs, &spec.ExternalCIDRs}, {&o.Spec.Communities, &spec.Communities},
	} {
		if len(*list.want) > 0 {
			*list.have = *list.want
		}
	}
	return spec
}
