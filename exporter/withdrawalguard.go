package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/schema"
)

const (
	// massExports is how many exports may end within goneFor without being held.
	massExports, goneFor = 10, 30 * time.Second
	// kindRetry is when to check again whether the member serves ServiceExports.
	kindRetry = 15 * time.Second
	// servedTimeout is how long that question may take.
	servedTimeout = 5 * time.Second
)

// DefaultHoldWithdrawals is the default of Options.HoldWithdrawals.
const DefaultHoldWithdrawals = 10 * time.Minute

// withdrawalGuard holds back withdrawals that may be a mistake. A ServiceExport that is deleted while its Service exists is withdrawn if it
// isn't back after a few seconds. If more than ten went within half a minute, a script may have gone wrong: those services stay exported until
// their ServiceExports are back, their Services are deleted too, or ten minutes have passed. While the kind isn't served, all stay.
type withdrawalGuard struct {
	holdFor    time.Duration // 0: nothing is held
	replaceFor time.Duration // see Options.ReplaceFor
	// served asks whether the member serves ServiceExports, and returns why not. If the kind is gone, or being deleted, missing objects mean
	// nothing.
	served func(ctx context.Context, key types.NamespacedName) (gone, err error)

	mu       sync.Mutex // not held during requests
	gone     map[types.NamespacedName]*departure
	asked    time.Time // when it was last known whether the kind is served
	unserved bool
}

// departure is a service whose ServiceExport is gone while its Service exists.
type departure struct {
	since    time.Time // when that was first seen
	until    time.Time // until when it stays exported
	held     bool      // for longer than a replacement takes
	unserved bool      // because the kind isn't served
}

func newWithdrawalGuard(holdFor, replaceFor time.Duration) withdrawalGuard {
	return withdrawalGuard{holdFor: holdFor, replaceFor: replaceFor, gone: map[types.NamespacedName]*departure{}}
}

// decision is what to do with a service whose Service or ServiceExport is gone.
type decision struct {
	held bool
	// fresh is set if it wasn't held before.
	fresh bool
	// retry is when to check again. It stays exported until then. 0: it is withdrawn now.
	retry time.Duration
}

// ask decides for one service whose ServiceExport is gone.
func (g *withdrawalGuard) ask(ctx context.Context, key types.NamespacedName) (decision, error) {
	s, ask := g.waits(key)
	if s.retry > 0 {
		return s, nil
	}
	if ask {
		ctx, cancel := context.WithTimeout(ctx, servedTimeout)
		defer cancel()
		gone, err := g.served(ctx, key)
		if err != nil {
			return decision{}, err
		}
		g.mu.Lock()
		g.asked, g.unserved = time.Now(), gone != nil
		g.mu.Unlock()
	}
	return g.decide(key), nil
}

// waits returns for how long a service stays as it is. If that is over, ask says whether it has to be asked if the kind is served: an earlier
// answer counts for those that were gone by then.
func (g *withdrawalGuard) waits(key types.NamespacedName) (s decision, ask bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.gone[key] == nil {
		g.gone[key] = &departure{since: now, until: now.Add(g.replaceFor)}
	}
	d := g.gone[key]
	return decision{held: d.held, retry: max(d.until.Sub(now), 0)}, now.Sub(g.asked) >= g.replaceFor
}

// decide decides for a service that has waited.
func (g *withdrawalGuard) decide(key types.NamespacedName) decision {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, d := time.Now(), g.gone[key]
	was := d.held
	recent := 0
	for _, other := range g.gone {
		if now.Sub(other.since) <= goneFor {
			recent++
		}
	}
	many := !d.held && now.Sub(d.since) <= goneFor && recent > massExports
	switch {
	case g.unserved:
		d.held, d.unserved, d.until = true, true, now.Add(kindRetry)
	case g.holdFor > 0 && (many || d.unserved):
		d.held, d.unserved, d.until = true, false, now.Add(g.holdFor)
	default:
		d.held = false
		return decision{}
	}
	return decision{held: true, fresh: !was, retry: d.until.Sub(now)}
}

// forget forgets a service that has a ServiceExport or no Service.
func (g *withdrawalGuard) forget(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.gone, key)
}

// served checks with a dry run whether the member would accept a ServiceExport. It wouldn't if the CustomResourceDefinition is
// gone, or is being deleted together with all objects; then gone says so. err means that the API server isn't reached. What takes too long
// may be a webhook, which the API server calls only for a kind that it serves.
func (e serviceExports) served(ctx context.Context, key types.NamespacedName) (gone, err error) {
	probe := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err = e.client.Create(ctx, e.version.EncodeExport(probe), client.DryRunAll)
	var status apierrors.APIStatus
	switch answered := errors.As(err, &status); {
	case err != nil && !answered && !errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("ask whether ServiceExports are served: %w", err)
	case answered && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return nil, nil // its namespace is gone
	case schema.Terminating(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("ServiceExports aren't served: %w", err), nil
	}
	return nil, nil // it knows the kind; a policy's refusal is no loss
}
