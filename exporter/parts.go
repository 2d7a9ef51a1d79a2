package exporter

import (
	"errors"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/nodes"
)

// reconciler makes one service's records on the hub match its source, and reports it on its ServiceExport.
type reconciler struct {
	cluster      string
	from         namespaces.Filter // that is exported from
	local        client.Reader     // the member's cache
	exports      serviceExports
	hub          client.Client
	onHub        hubStore
	synced       func() bool  // whether both caches have synced and the name is ours
	unheard      func() error // why it can't or isn't
	events       events.EventRecorder
	pass         *exportPass
	states       serviceStates
	limiter      limiter
	withdrawals  withdrawalGuard
	perNamespace int // services of one namespace that are exported
	visible      visibility
	nodes        *nodes.Nodes
	names        *resolver
	ofPeers      *rate.Limiter // for what ServiceExports say of conflicts and missing namespaces, which other clusters change

	behind time.Time // since when upToDate hasn't succeeded
	now    func() time.Time
}

// hubStore is what is known of the hub: a store.Store.
type hubStore interface {
	// Own and Service return the records of a service: our own, and those of every member for the conflicts.
	Own(key types.NamespacedName) (*clustersetv1alpha1.ExportedService, []*clustersetv1alpha1.ExportedEndpoints)
	Service(key types.NamespacedName) []store.Part
	OwnRecords() ([]*clustersetv1alpha1.ExportedService, []*clustersetv1alpha1.ExportedEndpoints)
	Member(cluster string) *clustersetv1alpha1.MemberCluster
}

// errNotSynced is returned until the hub has been read.
var errNotSynced = errors.New("the cache of the hub hasn't synced")

// hubTimeout is how long a request to the hub may take: longer than an API server usually waits for a webhook (10 s), so that the reason of a
// failure is known.
const hubTimeout = 15 * time.Second
