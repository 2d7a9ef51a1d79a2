package connect

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterset/clusterset/api"
)

var (
	metricTokenExpiry = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_hub_token_expiry_timestamp_seconds",
		Help: "When the member's token for the hub expires, in seconds since the epoch; 0 if it doesn't or isn't a token.",
	})
	metricTokenLifetime = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_hub_token_lifetime_seconds",
		Help: "How long the member's token for the hub is valid altogether, in seconds; it is renewed after half of that. 0 if it doesn't expire or isn't a token.",
	})
	metricRenewals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_hub_token_renewals_total",
		Help: "Attempts to renew the member's token for the hub, by result: ok or error.",
	}, []string{"result"})
)

// Collectors returns the metrics of a member's credentials for the hub.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{metricTokenExpiry, metricTokenLifetime, metricRenewals}
}

// registerMetrics registers the metrics only in a member's agent. The hub process is the same program and has no such
// credentials.
var registerMetrics = sync.OnceFunc(func() {
	metrics.Registry.MustRegister(Collectors()...)
	for _, result := range []string{"ok", "error"} {
		metricRenewals.WithLabelValues(result)
	}
})

// showToken sets the metrics of the token in use.
func showToken(token string) {
	c, _ := parseToken(token)
	metricTokenExpiry.Set(float64(c.Expires))
	metricTokenLifetime.Set(float64(c.Expires - c.Issued))
}

// SecretStore is where a renewed kubeconfig is stored, so that the next process starts with it: a Secret, under api.HubSecretKey. Without a
// name it isn't stored. The client should read from the API server: a cache of Secrets would let the agent see more than it should.
type SecretStore struct {
	Client client.Client
	Key    types.NamespacedName
}

// Save stores a kubeconfig in place of the one with the token that it replaces. Another one stays, such as that of a new join: nobody else has
// its credentials, and Watch will find them.
func (s SecretStore) Save(ctx context.Context, replaces string, kubeconfig []byte) error {
	if s.Key.Name == "" {
		return nil
	}
	secret := &corev1.Secret{}
	if err := s.Client.Get(ctx, s.Key, secret); err != nil {
		return fmt.Errorf("get Secret %s: %w", s.Key, err)
	}
	if config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[api.HubSecretKey]); err != nil || config.BearerToken != replaces {
		return nil //nolint:nilerr // what is wrong there is for whoever wrote it
	}
	before := secret.DeepCopy()
	secret.Data[api.HubSecretKey] = kubeconfig
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.Client.Patch(ctx, secret, patch, client.FieldOwner(api.FieldManagerExporter)); err != nil {
		return fmt.Errorf("patch Secret %s: %w", s.Key, err)
	}
	return nil
}

// Renewer replaces a member's token when half of its lifetime is over, which leaves the other half for a hub that is
// unreachable.
type Renewer struct {
	Connection *Connection
	Cluster    string
	Store      SecretStore

	stored string // the token that is still in the store, if it isn't the one in use
}

// renewEvery is how often the token's age is checked, and a failed renewal retried.
const renewEvery = time.Minute

// Start renews until ctx ends. It is a manager's Runnable, for the leader only: one renewal is enough. Credentials that aren't
// a token of the member's account are left to their owner.
func (r *Renewer) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("hub-token")
	hub, err := NewClient(r.Connection.Config())
	if err != nil {
		return fmt.Errorf("renew hub token: %w", err)
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		switch renewed, err := r.renew(ctx, hub); {
		case err != nil && ctx.Err() == nil:
			metricRenewals.WithLabelValues("error").Inc()
			logger.Error(err, "Can't renew the token for the hub, trying again")
		case renewed:
			metricRenewals.WithLabelValues("ok").Inc()
			token, _ := r.Connection.current()
			logger.Info("Renewed the token for the hub", "expires", Expires(token))
		}
	}, renewEvery)
	return nil
}

// renew exchanges the token if it is due.
func (r *Renewer) renew(ctx context.Context, hub client.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery/2)
	defer cancel()
	token, kubeconfig := r.Connection.current()
	if c, ok := parseToken(token); ok && c.Subject == subjectOf(r.Cluster) && r.Connection.due() {
		fresh, err := RequestToken(ctx, hub, r.Cluster, max(c.lifetime(), MinTokenLifetime))
		if err != nil {
			return false, err
		}
		if kubeconfig, err = replaceToken(kubeconfig, fresh); err != nil {
			return false, err
		}
		// Used before it is stored: even without a store it is worth having.
		r.Connection.adopt(fresh, kubeconfig)
		r.stored = cmp.Or(r.stored, token)
	}
	if r.stored == "" {
		return false, nil
	}
	if err := r.Store.Save(ctx, r.stored, kubeconfig); err != nil {
		return false, err
	}
	r.stored = ""
	return true, nil
}
