package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/steer"
	"github.com/clusterset/clusterset/internal/topology"
)

// Options configure the importer. Only Cluster is required.
type Options struct {
	// Cluster is this member's name on the hub.
	Cluster string

	// DataPath is the destination of traffic to ClusterSetIPs. Default: pods.
	DataPath desired.DataPath

	// Steer is how service proxies are told which endpoints ClusterSetIPs lead to. Default: steer.Auto.
	Steer steer.Mode

	// Policy decides which endpoints ClusterSetIPs lead to, unless the service states its own. Default: the DNS servers' default.
	Policy topology.Policy

	// IncludeNamespaces are the namespaces to import services into, as names or patterns with *, ? and [a-z]. Default: all.
	IncludeNamespaces []string

	// ExcludeNamespaces are the namespaces to leave out, in the same form. They take precedence over IncludeNamespaces. Default
	// if nil: namespaces.System.
	ExcludeNamespaces []string

	// CreateNamespaces creates missing namespaces of exported services. They are never deleted. Default: such services are
	// skipped until the namespace exists.
	CreateNamespaces bool

	// MaxNamespaces is how many namespaces CreateNamespaces creates for the services of one cluster. Default: DefaultMaxNamespaces.
	MaxNamespaces int

	// ExtendEverywhere lets every namespace's Services be extended to other clusters, without a label of the namespace, but for kube-….
	ExtendEverywhere bool

	// SkipGlobalServices writes no GlobalServices, for clusters that don't use svc.global, and deletes those written before. It
	// can't be combined with DataPathNone: no name would have an address. A cluster without FabDNS's CRD doesn't need it.
	SkipGlobalServices bool

	// MaxServices is how many services are imported from one cluster, in the order in which the hub received their records.
	// Default: DefaultMaxServices.
	MaxServices int

	// RecordMemory is how many bytes of memory the records of one cluster may take here. Default: store.DefaultMaxMemory.
	RecordMemory int

	// WriteRate and WriteBurst bound what the changes of one source cluster make this importer write: bytes a second, and bytes at
	// once. What is beyond waits, and is merged. Default: DefaultWriteRate, DefaultWriteBurst.
	WriteRate, WriteBurst int

	// Concurrency is how many services are reconciled in parallel. Default: DefaultConcurrency.
	Concurrency int

	// Nodes are this cluster's nodes, by whose zones endpoints are ranked. The caller watches them. Nil means that they never are known.
	Nodes *nodes.Nodes

	// Facts are what the heartbeat says of the imports. Optional.
	Facts *Facts

	// Unreachable reports which clusters this one can't reach; Reached is closed once that is known, and Moved has an event with the
	// MemberCluster of each cluster for which it changes. Nil means that all can be reached.
	Unreachable func(cluster string) bool
	Reached     <-chan struct{}
	Moved       <-chan event.GenericEvent

	// Avoid returns the addresses of the hub, and of this cluster's nodes and API server, which no cluster of another network can be behind. Nil: none.
	Avoid func(context.Context) []netip.Addr

	// HubRefuses returns since when the hub has rejected this cluster's token, zero if it accepts it. Optional.
	HubRefuses func() time.Time

	// MaxBackoff is the longest wait before a failed service is retried. Default: a minute.
	MaxBackoff time.Duration
}

// ErrNoAddresses is the error for DataPathNone with SkipGlobalServices.
var ErrNoAddresses = errors.New("no name would have an address, which services without a ClusterSetIP have only in GlobalServices; " +
	"use the data path pods or clusterips, or write GlobalServices")

// DefaultConcurrency is the default of Options.Concurrency.
const DefaultConcurrency = 8

// DefaultMaxServices is the default of Options.MaxServices.
const DefaultMaxServices = 5000

// DefaultMaxNamespaces is the default of Options.MaxNamespaces: a hundredth of the namespaces that Kubernetes is tested with
// (https://github.com/kubernetes/community/blob/master/sig-scalability/configs-and-limits/thresholds.md), and more than most clusters have.
const DefaultMaxNamespaces = 100

const (
	// DefaultWriteRate is the default of Options.WriteRate. etcd keeps each version of an object until it is compacted, after ten
	// minutes at most: one cluster's changes leave 430 MiB in it, of the 2 GiB that are its default quota.
	DefaultWriteRate = 256 << 10
	// DefaultWriteBurst is the default of Options.WriteBurst: twenty changes of each of a thousand services of ten endpoints at once.
	DefaultWriteBurst = 64 << 20
)

func (o Options) withDefaults() (Options, error) {
	var errs []error
	if err := api.CheckMemberName(o.Cluster); err != nil {
		errs = append(errs, fmt.Errorf("cluster name %q %w", o.Cluster, err))
	}
	if o.DataPath == "" {
		o.DataPath = desired.DataPathPods
	}
	if _, err := desired.ParseDataPath(string(o.DataPath)); err != nil {
		errs = append(errs, err)
	}
	o.Steer = cmp.Or(o.Steer, steer.Auto)
	errs = append(errs, o.Steer.Check())
	if o.SkipGlobalServices && o.DataPath == desired.DataPathNone {
		errs = append(errs, ErrNoAddresses)
	}
	if o.ExcludeNamespaces == nil {
		o.ExcludeNamespaces = namespaces.System
	}
	if o.Nodes == nil {
		o.Nodes = nodes.New()
	}
	errs = append(errs, namespaces.Check(o.IncludeNamespaces), namespaces.Check(o.ExcludeNamespaces))
	o.MaxServices = cmp.Or(max(0, o.MaxServices), DefaultMaxServices)
	o.RecordMemory = cmp.Or(max(0, o.RecordMemory), store.DefaultMaxMemory)
	o.WriteRate = cmp.Or(max(0, o.WriteRate), DefaultWriteRate)
	o.WriteBurst = cmp.Or(max(0, o.WriteBurst), DefaultWriteBurst)
	o.MaxNamespaces = cmp.Or(max(0, o.MaxNamespaces), DefaultMaxNamespaces)
	o.Concurrency = cmp.Or(max(0, o.Concurrency), DefaultConcurrency)
	if o.Facts == nil {
		o.Facts = &Facts{}
	}
	if o.HubRefuses == nil {
		o.HubRefuses = func() time.Time { return time.Time{} }
	}
	if o.Avoid == nil {
		o.Avoid = func(context.Context) []netip.Addr { return nil }
	}
	o.MaxBackoff = cmp.Or(max(0, o.MaxBackoff), time.Minute)
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("importer options: %w", err)
	}
	return o, nil
}

// imports reports whether services of the namespace are imported.
func (o *Options) imports(namespace string) bool {
	return namespaces.Filter{Include: o.IncludeNamespaces, Exclude: o.ExcludeNamespaces}.Has(namespace)
}

// importsAll reports whether services of every namespace that exists are imported, and of no other.
func (o *Options) importsAll() bool {
	return !o.CreateNamespaces && len(o.IncludeNamespaces) == 0 && slices.Equal(o.ExcludeNamespaces, namespaces.System)
}
