package hold

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

const (
	// trustFor is how long one good answer of the hub holds, so that a thousand un-exports at once don't mean a thousand
	// questions from each member. An API server doesn't come back with an empty etcd within it.
	trustFor = time.Second
	// askTimeout bounds the question.
	askTimeout = 10 * time.Second
	// heldRetry is when a service whose deletion was held back is looked at again.
	heldRetry = 15 * time.Second
	// settleFor is how long the members get to put their records back on a hub that had lost one of our kinds: twice an
	// exporter's longest wait between two attempts.
	settleFor = time.Minute
	// unexportedRetry is the same while our own exports are under way.
	unexportedRetry = time.Second
)

// ErrLost says that the hub has lost one of our kinds and with it all records of that kind, which it gets back one by one.
var ErrLost = errors.New("the hub has lost records")

// errUnexported is why nothing is deleted at the start. It passes by itself.
var errUnexported = errors.New("this cluster's own exports are not on the hub yet")

// RetryAfter is when to look again at what MayDelete or Left refused.
func RetryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, errUnexported):
		return unexportedRetry
	case errors.Is(err, errLeaving):
		return vanishedRetry
	}
	return heldRetry
}

// Guard decides whether something missing from the hub's caches is reason to delete. That the caches have synced isn't
// enough: a hub whose etcd came back empty syncs too, and its watches tell of the deletion of everything, one kind after
// the other. So before anything is taken away the hub is asked whether it still knows this member, and whether it would take
// records: one whose CustomResourceDefinitions are being deleted, and all records with them, wouldn't. One that doesn't
// answer, or that is no longer the hub we joined, deletes nothing. Nor does one that had lost something a moment ago, because
// the members put their records back one after the other.
type Guard struct {
	Cache client.Reader
	// Live reads from the hub's API server, not from a cache.
	Live client.Reader
	// Records writes to the hub, and is only asked what would become of it.
	Records client.Writer
	Cluster string
	Clock   clock.PassiveClock
	// Exported is closed once our own exports are on the hub; nil: they are. A hub that lost its data and was joined anew
	// doesn't have them, and they mustn't be taken for un-exported in the moment before it has.
	Exported <-chan struct{}
	// Changed is called when the hub is found incomplete, and when it is found complete again, with nil.
	Changed func(context.Context, error)

	mu     sync.Mutex
	goodAt time.Time
	lostAt time.Time // when it was last seen to have lost something; zero: never
	held   bool
}

// known returns nil if, for all that our caches say, the hub knows us and has what we export. It asks nobody.
func (g *Guard) known(ctx context.Context) error {
	if g.Exported != nil {
		select {
		case <-g.Exported:
		default:
			return errUnexported
		}
	}
	return g.knowsUs(ctx, g.Cache)
}

// MayDelete returns nil if the hub can be trusted to be complete, else why not.
func (g *Guard) MayDelete(ctx context.Context) error {
	if g.Exported != nil {
		select {
		case <-g.Exported:
		default:
			return errUnexported
		}
	}
	err := g.complete(ctx)
	if ctx.Err() != nil {
		return err // we are being stopped, which says nothing about the hub
	}
	err = g.settled(err)
	g.mu.Lock()
	changed := g.held != (err != nil)
	g.held = err != nil
	g.mu.Unlock()
	if changed && g.Changed != nil {
		g.Changed(ctx, err)
	}
	return err
}

// settled makes a hub that is complete again wait for its members' records.
func (g *Guard) settled(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if errors.Is(err, ErrLost) {
		g.lostAt = g.Clock.Now()
	}
	if err != nil || g.lostAt.IsZero() {
		return err
	}
	if since := g.Clock.Since(g.lostAt); since < settleFor {
		return fmt.Errorf("%w until %s ago, and others may not have put theirs back yet; what is missing in %s counts as un-exported",
			ErrLost, since.Round(time.Second), (settleFor - since).Round(time.Second))
	}
	return nil
}

func (g *Guard) complete(ctx context.Context) error {
	if err := g.knowsUs(ctx, g.Cache); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.goodAt.IsZero() && g.Clock.Since(g.goodAt) < trustFor {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := errors.Join(g.knowsUs(ctx, g.Live), g.takesRecords(ctx)); err != nil {
		return err
	}
	g.goodAt = g.Clock.Now()
	return nil
}

func (g *Guard) knowsUs(ctx context.Context, hub client.Reader) error {
	own := &clustersetv1alpha1.MemberCluster{}
	err := hub.Get(ctx, client.ObjectKey{Name: g.Cluster}, own)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub has no MemberCluster %s: it is empty, or has lost this cluster", g.Cluster)
	case err != nil:
		return fmt.Errorf("get MemberCluster %s from the hub: %w", g.Cluster, err)
	case own.Left():
		return fmt.Errorf("MemberCluster %s is deleted on the hub: this cluster has left, or all are being deleted", g.Cluster)
	}
	return nil
}

// takesRecords asks the hub to say what it would do with a record of each kind, and to do nothing (a dry run).
func (g *Guard) takesRecords(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: api.MemberNamespace(g.Cluster), Name: api.ExportedServiceName("default", "probe")}
	var errs []error
	for _, record := range []client.Object{
		&clustersetv1alpha1.ExportedService{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "default", ServiceName: "probe", Type: mcsv1beta1.Headless, ExportedAt: metav1.NewTime(g.Clock.Now()),
		}},
		&clustersetv1alpha1.ExportedEndpoints{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: "default", ServiceName: "probe", AddressType: discoveryv1.AddressTypeIPv4,
		}},
	} {
		err := g.Records.Create(ctx, record, client.DryRunAll)
		switch {
		case apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err): // the kind is on its way out, or gone
			errs = append(errs, fmt.Errorf("%w: it takes no %s: %w", ErrLost, reflect.TypeOf(record).Elem().Name(), err))
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err):
			// It knows the kind. A quota or a policy of its own is no loss.
		case err != nil:
			errs = append(errs, fmt.Errorf("ask the hub whether it takes an %s: %w", reflect.TypeOf(record).Elem().Name(), err))
		}
	}
	return errors.Join(errs...)
}
