package importer

import (
	"errors"
	"fmt"
	"time"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/topology"
)

// Options are what a person decides about importing. Only Cluster has to be set.
type Options struct {
	// Cluster is this member's name on the hub.
	Cluster string

	// DataPath says what ClusterSetIPs lead to. Default: pods.
	DataPath desired.DataPath

	// Policy is which endpoints ClusterSetIPs lead to, where a service doesn't say. Default: as the DNS servers' default.
	Policy topology.Policy

	// IncludeNamespaces are the namespaces to import services into, as names or patterns with *, ? and [a-z]. Default:
	// all.
	IncludeNamespaces []string

	// ExcludeNamespaces are those to leave out, in the same form; they count before IncludeNamespaces. Default, where
	// nil: namespaces.System.
	ExcludeNamespaces []string

	// CreateNamespaces makes the namespaces that exported services lie in and that don't exist here. They are never
	// deleted again. Default: such services are skipped until the namespace appears.
	CreateNamespaces bool

	// SkipGlobalServices writes no GlobalService, for clusters without FabDNS's kind. Ones written before are deleted. It
	// can't be combined with DataPathNone: no name would have an address.
	SkipGlobalServices bool

	// MaxServices is how many services are imported of one cluster, the first by when the hub got their records. Default:
	// DefaultMaxServices.
	MaxServices int

	// Concurrency is how many services are worked on at once. Default: DefaultConcurrency.
	Concurrency int

	// Reach tells whether the hub answers, nil where nobody knows.
	Reach *Reach

	// Zones is called with the zones that this cluster's nodes lie in, sorted, once these are known and whenever they change.
	// Nil: nobody wants to know.
	Zones func([]string)

	// Exported is closed once what this cluster exports is on the hub. Nothing is deleted before. Default, where nil: it is.
	Exported <-chan struct{}

	// HubWatched says whether the hub is being watched at this moment. Default, where nil: it always is.
	HubWatched func() bool

	// Unread says whether the records of a cluster haven't all been read yet, so that what is missing of them may only not have come.
	// Default, where nil: all have been.
	Unread func(cluster string) bool

	// AwaitRejoin is how long clusters that the hub has lost are waited for: what they exported is kept until they have joined
	// again. Default: a day, after which the hub forgets what a silent cluster exported as well.
	AwaitRejoin time.Duration

	// MaxBackoff is the longest wait before a service that failed is tried again. Default: a minute.
	MaxBackoff time.Duration
}

// ErrNoAddresses is why DataPathNone and SkipGlobalServices exclude each other.
var ErrNoAddresses = errors.New("the data path none gives services no ClusterSetIP, so that GlobalServices are all that has their addresses, and these are skipped; " +
	"use the data path pods or clusterips, or write GlobalServices")

// DefaultConcurrency is the Concurrency where nobody says.
const DefaultConcurrency = 8

// DefaultMaxServices is the MaxServices where nobody says.
const DefaultMaxServices = 5000

// DefaultAwaitRejoin is how long others are waited for where nobody says.
const DefaultAwaitRejoin = 24 * time.Hour

func (o Options) withDefaults() (Options, error) {
	var errs []error
	if err := api.CheckMemberName(o.Cluster); err != nil {
		errs = append(errs, fmt.Errorf("cluster %q: %w", o.Cluster, err))
	}
	if o.DataPath == "" {
		o.DataPath = desired.DataPathPods
	}
	if _, err := desired.ParseDataPath(string(o.DataPath)); err != nil {
		errs = append(errs, err)
	}
	if o.SkipGlobalServices && o.DataPath == desired.DataPathNone {
		errs = append(errs, ErrNoAddresses)
	}
	if o.ExcludeNamespaces == nil {
		o.ExcludeNamespaces = namespaces.System
	}
	errs = append(errs, namespaces.Check(o.IncludeNamespaces), namespaces.Check(o.ExcludeNamespaces))
	if o.MaxServices <= 0 {
		o.MaxServices = DefaultMaxServices
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.AwaitRejoin <= 0 {
		o.AwaitRejoin = DefaultAwaitRejoin
	}
	if o.HubWatched == nil {
		o.HubWatched = func() bool { return true }
	}
	if o.Unread == nil {
		o.Unread = func(string) bool { return false }
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = time.Minute
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("importer options: %w", err)
	}
	return o, nil
}

// imports says whether services of the namespace are imported.
func (o *Options) imports(namespace string) bool {
	return namespaces.Filter{Include: o.IncludeNamespaces, Exclude: o.ExcludeNamespaces}.Has(namespace)
}
