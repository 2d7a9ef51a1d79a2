package retention

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
	"github.com/clusterset/clusterset/internal/schema"
)

const (
	// trustFor is how long an answer of the hub is valid, good or bad, so that a thousand un-exports at once don't cause a thousand
	// requests from each member. It is too short for an API server to come back with an empty etcd.
	trustFor = time.Second
	// askTimeout bounds the request.
	askTimeout = 10 * time.Second
	// heldRetry is when a service is checked again after its deletion was refused.
	heldRetry = 15 * time.Second
	// settleFor is how long the members get to restore their records on a hub that had lost one of clusterset's kinds: twice
	// an exporter's longest wait between two attempts.
	settleFor = time.Minute
	// unexportedRetry is the same while this cluster's own exports aren't on the hub yet.
	unexportedRetry = time.Second
)

// ErrLost means that the hub lost one of clusterset's kinds and with it all records of that kind. The members restore them
// one by one.
var ErrLost = errors.New("the hub has lost records")

// errUnexported is why nothing is deleted at the start. It resolves itself.
var errUnexported = errors.New("this cluster's own exports aren't on the hub yet")

// RetryAfter returns when to retry what MayDelete or Left refused.
func RetryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, errUnexported):
		return unexportedRetry
	case errors.Is(err, errLeaving):
		return vanishedRetry
	}
	return heldRetry
}

// HubTrust decides whether objects may be deleted because their records are missing from the hub's caches. Synced caches aren't
// enough: a hub whose etcd came back empty syncs too, and its watches report the deletion of everything, one kind after
// another. So before any deletion it asks the hub whether it still knows this member, and whether it would accept
// records: it wouldn't while its CustomResourceDefinitions, and all records with them, are being deleted. If the hub doesn't
// answer, nothing is deleted. Nor is anything deleted shortly after the hub lost something, because the members restore their records one
// after another.
type HubTrust struct {
	Cache client.Reader
	// Live reads from the hub's API server, not from a cache.
	Live client.Reader
	// Records writes to the hub, but only as a dry run.
	Records client.Writer
	Cluster string
	Clock   clock.PassiveClock
	// Exported is closed once this cluster's own exports are on the hub; nil means that they are. A hub that lost its data and
	// was joined again doesn't have them at first, and they must not count as un-exported.
	Exported <-chan struct{}
	// Changed is called with an error when the hub is found incomplete, and with nil when it is complete again.
	Changed func(context.Context, error)

	mu     sync.Mutex
	asked  time.Time
	answer error     // at that time
	lostAt time.Time // when a hub that lost something was last seen incomplete or not at all; zero once the members had their time
	held   bool
}

// known returns nil if, according to the caches, the hub knows this cluster and has its exports. It makes no request.
func (t *HubTrust) known(ctx context.Context) error {
	if err := t.exported(); err != nil {
		return err
	}
	return t.knowsUs(ctx, t.Cache)
}

func (t *HubTrust) exported() error {
	if t.Exported != nil {
		select {
		case <-t.Exported:
		default:
			return errUnexported
		}
	}
	return nil
}

// MayDelete returns nil if the hub can be trusted to be complete, or else the reason why not.
func (t *HubTrust) MayDelete(ctx context.Context) error {
	if err := t.exported(); err != nil {
		return err
	}
	err := t.complete(ctx)
	if ctx.Err() != nil {
		return err // the process is stopping, which says nothing about the hub
	}
	err = t.settled(err)
	t.mu.Lock()
	changed := t.held != (err != nil)
	t.held = err != nil
	t.mu.Unlock()
	if changed && t.Changed != nil {
		t.Changed(ctx, err)
	}
	return err
}

// settled returns an error until the members had time to restore their records on a hub that is complete again.
func (t *HubTrust) settled(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(err, ErrLost) || err != nil && !t.lostAt.IsZero() {
		// While the hub can't be reached, the caches don't see what is restored: the time begins again.
		t.lostAt = t.Clock.Now()
	}
	if err != nil || t.lostAt.IsZero() {
		return err
	}
	if since := t.Clock.Since(t.lostAt); since < settleFor {
		return fmt.Errorf("%w; it has accepted them again for %s, and other members may not have restored theirs yet: what is still missing in %s counts as un-exported",
			ErrLost, since.Round(time.Second), (settleFor - since).Round(time.Second))
	}
	t.lostAt = time.Time{}
	return nil
}

func (t *HubTrust) complete(ctx context.Context) error {
	if err := t.knowsUs(ctx, t.Cache); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.IsZero() && t.Clock.Since(t.asked) < trustFor {
		return t.answer
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := errors.Join(t.knowsUs(asking, t.Live), t.takesRecords(asking))
	if ctx.Err() == nil {
		t.asked, t.answer = t.Clock.Now(), err
	}
	return err
}

func (t *HubTrust) knowsUs(ctx context.Context, hub client.Reader) error {
	own := &clustersetv1alpha1.MemberCluster{}
	err := hub.Get(ctx, client.ObjectKey{Name: t.Cluster}, own)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub has no MemberCluster %s: it is empty, or has lost this cluster", t.Cluster)
	case err != nil:
		return fmt.Errorf("get MemberCluster %s from the hub: %w", t.Cluster, err)
	case own.Left():
		return fmt.Errorf("MemberCluster %s is deleted on the hub: this cluster has left, or all are being deleted", t.Cluster)
	}
	return nil
}

// takesRecords asks the hub, in a dry run, whether it would accept a record of each kind.
func (t *HubTrust) takesRecords(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: api.MemberNamespace(t.Cluster), Name: api.ExportedServiceName("default", "probe")}
	var errs []error
	for _, record := range []client.Object{
		&clustersetv1alpha1.ExportedService{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "default", ServiceName: "probe", Type: mcsv1beta1.Headless, ExportedAt: metav1.NewTime(t.Clock.Now()),
		}},
		&clustersetv1alpha1.ExportedEndpoints{ObjectMeta: meta, Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: "default", ServiceName: "probe", AddressType: discoveryv1.AddressTypeIPv4,
		}},
	} {
		err := t.Records.Create(ctx, record, client.DryRunAll)
		switch {
		case schema.Terminating(err) || apierrors.IsNotFound(err): // the kind is being deleted, or gone
			errs = append(errs, fmt.Errorf("%w: it accepts no %s: %w", ErrLost, reflect.TypeOf(record).Elem().Name(), err))
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err):
			// The hub knows the kind. Refusal by a quota or an admission policy is no loss.
		case err != nil:
			errs = append(errs, fmt.Errorf("ask the hub whether it takes an %s: %w", reflect.TypeOf(record).Elem().Name(), err))
		}
	}
	return errors.Join(errs...)
}
