package connect

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/door/store"
)

// NewScheme returns a scheme with Kubernetes' own kinds and ours.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(clustersetv1alpha1.AddToScheme(scheme))
	utilruntime.Must(fabedgev1alpha1.AddToScheme(scheme))
	return scheme
}

// NewClient returns a client without a cache, for a hub or a member.
func NewClient(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: NewScheme()})
}

const (
	// hubQPS and hubBurst limit the requests of an agent to its hub to what only an agent that goes round in circles reaches (rule C72 of
	// docs/spec/control-plane.md). Requests come in bursts when an agent exports for the first time, or writes everything again to a hub
	// that lost it: for the most services that a hub accepts from one cluster, a record of each kind. After that they are as many as
	// changes here.
	hubQPS, hubBurst = 100, 12_000
)

// Hub is the hub as its members use it: what is known of it, and a client that asks it.
type Hub struct {
	client.Client
	Store *store.Store
}

// NewHub returns the hub. This doesn't contact it, and it may be down; the store fills once it is up, and it is told what is wanted. All that
// is read and written through it counts towards one limit, unless the configuration has a RateLimiter. The caller starts the store.
func NewHub(config *rest.Config, options store.Options) (*Hub, error) {
	config = rest.CopyConfig(config)
	if config.RateLimiter == nil {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(hubQPS, hubBurst)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme(), Mapper: HubMapper()})
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return &Hub{Client: c, Store: store.New(c, options)}, nil
}

// HubMapper knows the kinds that members use on a hub, so that no discovery is needed from a hub that may be down. Members have no
// rights to other kinds.
func HubMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{clustersetv1alpha1.GroupVersion})
	gv := clustersetv1alpha1.GroupVersion
	mapper.AddSpecific(gv.WithKind("ExportedService"), gv.WithResource("exportedservices"), gv.WithResource("exportedservice"), meta.RESTScopeNamespace)
	// The plural is the same as the singular: meta's guess would be "exportedendpointses".
	mapper.AddSpecific(gv.WithKind("ExportedEndpoints"), gv.WithResource("exportedendpoints"), gv.WithResource("exportedendpoints"), meta.RESTScopeNamespace)
	mapper.AddSpecific(gv.WithKind("MemberCluster"), gv.WithResource("memberclusters"), gv.WithResource("membercluster"), meta.RESTScopeRoot)
	mapper.Add(gv.WithKind("MemberReport"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	return mapper
}

// Forever is how long controllers wait for their caches. By default the process would end after two minutes without an API server
// or CRDs, which brings neither back sooner.
const Forever = 100 * 365 * 24 * time.Hour
