package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/clusterset/clusterset/cli/rehearse"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/schema"
)

// ErrNameInUse is why a name is refused: two clusters with one name would overwrite each other's records.
var ErrNameInUse = errors.New("the name is in use")

// ErrNotTheHub is why an API server is refused: it is a member's, and its MemberClusters are copies of a hub's.
var ErrNotTheHub = errors.New("its MemberClusters are copies, so it is a member and not the hub")

// Options describe the cluster that joins.
type Options struct {
	// Cluster is its name in the set.
	Cluster string

	// Zone and Region are its location. Empty means unknown.
	Zone, Region string

	// CIDRs are the networks of its endpoints, for policies. Empty means any.
	CIDRs []string
	// Network is the network that it is in, and ExternalCIDRs those of its external addresses.
	Network       string
	ExternalCIDRs []string

	// Communities are those that it is in. If empty: the default one or, with Rejoin, the previous ones.
	Communities []string

	// TokenLifetime is how long its token is valid. The hub's API server may limit it. Default if zero: access.DefaultTokenLifetime.
	TokenLifetime time.Duration

	// Server is the hub's address as the member reaches it. Default: the address in Join's configuration.
	Server string

	// Joined is when the cluster joined a hub that has since lost its MemberCluster, so that its exports keep their age
	// (PreviouslyJoined). If zero, it joins now. An existing MemberCluster keeps its time.
	Joined time.Time

	// Rejoin reuses an existing membership, made by hand or by an interrupted join, and gives it a new token.
	Rejoin bool

	// Revoke, with Rejoin, invalidates every earlier token of the member, including stolen ones. Its agent is cut off until it
	// has the new one; names are still answered.
	Revoke bool
}

// Validate returns what is wrong with the options, for the person who typed them.
func (o Options) Validate() error { return o.complete() }

// Lifetime returns how long a token to request.
func (o Options) Lifetime() time.Duration {
	return cmp.Or(o.TokenLifetime, access.DefaultTokenLifetime)
}

// complete fills in defaults and returns what is wrong, for the person who typed it.
func (o *Options) complete() error {
	if err := api.CheckMemberName(o.Cluster); err != nil {
		return fmt.Errorf("cluster name %q %w", o.Cluster, err)
	}
	o.TokenLifetime = o.Lifetime()
	if o.TokenLifetime < connect.MinTokenLifetime {
		return fmt.Errorf("--token-lifetime is %s; it must be at least %s", o.TokenLifetime, connect.MinTokenLifetime)
	}
	if o.Revoke && !o.Rejoin {
		return errors.New("--revoke requires --rejoin")
	}
	return memberCluster(*o).Validate().ToAggregate()
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

// Join makes a cluster a member of the hub and returns a kubeconfig for its agent.
//
// The MemberCluster is created first, which takes the name: of two joins with one name, one fails before it has done anything.
// After a join that is interrupted later, use Rejoin or Leave.
func Join(ctx context.Context, hub Server, o Options) (kubeconfig []byte, err error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	c, err := hub.client()
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", o.Cluster, err)
	}
	if err := refuseMember(ctx, c, ""); err != nil {
		return nil, fmt.Errorf("join %s: %w", o.Cluster, err)
	}
	if !rehearse.InstallsKinds(c) {
		if err := schema.CheckHub(ctx, hub.Config); err != nil {
			return nil, fmt.Errorf("join %s: %w", o.Cluster, err)
		}
	}
	if err := takeName(ctx, c, o); err != nil {
		return nil, fmt.Errorf("join %s: %w", o.Cluster, err)
	}
	if o.Revoke {
		// Tokens belong to one account and not to its name, so they end with it.
		if _, err := remove(ctx, c, access.ServiceAccount(o.Cluster)); err != nil {
			return nil, fmt.Errorf("join %s: revoke its tokens: %w", o.Cluster, err)
		}
	}
	var mc clustersetv1alpha1.MemberCluster // its networks may be from an earlier join
	if err := c.Get(ctx, client.ObjectKey{Name: o.Cluster}, &mc); err != nil {
		return nil, fmt.Errorf("join %s: get MemberCluster: %w", o.Cluster, err)
	}
	for _, obj := range append(access.Objects(o.Cluster, api.ManagedByJoin), access.Networks(o.Cluster, &mc.Spec), access.ClusterRoleBinding(o.Cluster)) {
		if err := ensure(ctx, c, obj); err != nil {
			return nil, fmt.Errorf("join %s: %w (join again with --rejoin, or undo what was done with clusterset leave)", o.Cluster, err)
		}
	}
	token, err := connect.RequestToken(ctx, c, o.Cluster, o.TokenLifetime)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w (join again with --rejoin, or undo what was done with clusterset leave)", o.Cluster, err)
	}
	kubeconfig, err = connect.Kubeconfig(hub.Config, o.Server, o.Cluster, token)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", o.Cluster, err)
	}
	return kubeconfig, nil
}

// refuseMember returns ErrNotTheHub if the API server is a member's. A member's kubeconfig is easily mistaken for the hub's,
// and the importer would undo what a join or leave does there, or DNS would answer by it. A member that is the hub itself has
// no copies, except one that its importer is about to remove. cluster is a name that must not be a copy, or empty.
func refuseMember(ctx context.Context, c client.Client, cluster string) error {
	var all clustersetv1alpha1.MemberClusterList
	err := c.List(ctx, &all)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err): // there are none
		return nil
	case err != nil:
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	copies := 0
	for i := range all.Items {
		if all.Items[i].Labels[api.LabelManagedBy] != api.ManagedByImporter {
			continue
		}
		copies++
		if all.Items[i].Name == cluster {
			return ErrNotTheHub
		}
	}
	if copies > 0 && copies == len(all.Items) {
		return ErrNotTheHub
	}
	return nil
}

// takeName creates the MemberCluster. It refuses if there is one, or if its namespace exists without it.
//
// The name of a cluster that has left is free, whatever is left of it: its MemberCluster, which is only kept for others to see
// (api.MemberFinalizer), and its namespace if Leave hasn't been called.
func takeName(ctx context.Context, c client.Client, o Options) error {
	free, err := takeUp(ctx, c, o.Cluster)
	if err != nil {
		return err
	}
	var ns corev1.Namespace
	switch err := c.Get(ctx, client.ObjectKey{Name: api.MemberNamespace(o.Cluster)}, &ns); {
	case err == nil && ns.DeletionTimestamp != nil:
		return fmt.Errorf("%w: namespace %s of an earlier member is still being deleted; try again in a moment", ErrNameInUse, ns.Name)
	case err == nil && !o.Rejoin && !free:
		return inUse(o.Cluster, "namespace "+ns.Name)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("get Namespace %s: %w", api.MemberNamespace(o.Cluster), err)
	}

	want := memberCluster(o)
	err = c.Create(ctx, want, client.FieldOwner(api.FieldManagerCLI))
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return errors.New("the hub doesn't know MemberCluster; install clusterset's CRDs there with --install-crds")
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create MemberCluster %s: %w", o.Cluster, err)
	case !o.Rejoin:
		return inUse(o.Cluster, "MemberCluster "+o.Cluster)
	}
	err = retry.OnError(retry.DefaultRetry, outrun, func() error {
		mc := &clustersetv1alpha1.MemberCluster{}
		mc.Name = o.Cluster
		_, err := controllerutil.CreateOrUpdate(ctx, c, mc, func() error {
			mc.Labels = labels.Merge(mc.Labels, want.Labels, nil)
			controllerutil.AddFinalizer(mc, api.MemberFinalizer)
			// Its location may have been set by hand; what isn't given now stays.
			mc.Spec.Zone = cmp.Or(want.Spec.Zone, mc.Spec.Zone)
			mc.Spec.Region = cmp.Or(want.Spec.Region, mc.Spec.Region)
			if len(want.Spec.CIDRs) > 0 {
				mc.Spec.CIDRs = want.Spec.CIDRs
			}
			mc.Spec.Network = cmp.Or(want.Spec.Network, mc.Spec.Network)
			if len(want.Spec.ExternalCIDRs) > 0 {
				mc.Spec.ExternalCIDRs = want.Spec.ExternalCIDRs
			}
			if len(want.Spec.Communities) > 0 {
				mc.Spec.Communities = want.Spec.Communities
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("update MemberCluster %s: %w", o.Cluster, err)
	}
	return nil
}

// inUse says whose the name may be, and what to do then.
func inUse(cluster, what string) error {
	return fmt.Errorf("%w: %s exists on the hub; if it is this cluster's, use --rejoin; if not, choose another name, or remove the other cluster with clusterset leave %s",
		ErrNameInUse, what, cluster)
}

// takeUp removes the MemberCluster of a cluster that has left, and reports whether there was one.
func takeUp(ctx context.Context, c client.Client, cluster string) (was bool, err error) {
	key := client.ObjectKey{Name: cluster}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		var mc clustersetv1alpha1.MemberCluster
		switch err := c.Get(ctx, key, &mc); {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err): // without the kind, creating it says what to do
			return true, nil
		case err != nil:
			return false, fmt.Errorf("get MemberCluster %s: %w", cluster, err)
		case !mc.Left():
			return true, nil
		}
		was = true
		if !controllerutil.ContainsFinalizer(&mc, api.MemberFinalizer) {
			return false, nil // someone else's holds it
		}
		released := mc.DeepCopy()
		controllerutil.RemoveFinalizer(released, api.MemberFinalizer)
		err := c.Patch(ctx, released, client.MergeFromWithOptions(&mc, client.MergeFromWithOptimisticLock{}), client.FieldOwner(api.FieldManagerCLI))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return false, fmt.Errorf("remove finalizer from MemberCluster %s: %w", cluster, err)
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

// ensure creates an object, or updates an existing one.
func ensure(ctx context.Context, c client.Client, want client.Object) error {
	kind := kindOf(c, want)
	err := retry.OnError(retry.DefaultRetry, outrun, func() error {
		have := want.DeepCopyObject().(client.Object)
		_, err := controllerutil.CreateOrUpdate(ctx, c, have, func() error {
			have.SetLabels(labels.Merge(have.GetLabels(), want.GetLabels(), nil))
			access.Mend(have, want)
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s %s: %w", kind, access.NameOf(want), err)
	}
	return nil
}

func kindOf(c client.Client, o client.Object) string {
	gvk, err := c.GroupVersionKindFor(o)
	if err != nil {
		return fmt.Sprintf("%T", o)
	}
	return gvk.Kind
}

func memberCluster(o Options) *clustersetv1alpha1.MemberCluster {
	mc := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: o.Cluster, Labels: access.Managed(o.Cluster), Finalizers: []string{api.MemberFinalizer}},
		Spec:       clustersetv1alpha1.MemberClusterSpec{Zone: o.Zone, Region: o.Region, CIDRs: o.CIDRs, Network: o.Network, ExternalCIDRs: o.ExternalCIDRs, Communities: o.Communities},
	}
	if !o.Joined.IsZero() {
		mc.Annotations = map[string]string{api.AnnotationJoined: o.Joined.UTC().Format(time.RFC3339)}
	}
	return mc
}
