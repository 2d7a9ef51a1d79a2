package importer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// globalKindCheck is how often the importer looks whether GlobalService is installed.
const globalKindCheck = 10 * time.Second

// globalKind knows whether this cluster has the kind GlobalService. It is FabDNS's, and may be uninstalled with FabDNS or installed later;
// everything else is imported in any case.
type globalKind struct {
	cache   cache.Cache
	live    client.Reader
	missing atomic.Bool
}

// look returns whether the kind is installed.
func (k *globalKind) look(ctx context.Context) (bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalServiceList"))
	switch err := k.live.List(ctx, &list, client.Limit(1)); {
	case err == nil:
		return true, nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("list GlobalServices: %w", err)
	}
}

// begin finds out whether the kind is installed and can be read. A kind that goes at this moment can't, but there is no need to wait long:
// follow catches up.
func (k *globalKind) begin(ctx context.Context) error {
	installed, err := k.look(ctx)
	if err != nil {
		return err
	}
	if installed {
		sync, cancel := context.WithTimeout(ctx, globalKindCheck)
		defer cancel()
		_, err = k.cache.GetInformer(sync, globalMetadata())
	}
	k.missing.Store(!installed || err != nil)
	if k.missing.Load() {
		logf.FromContext(ctx).Info("GlobalService isn't installed. Everything else is imported")
	}
	return nil
}

// watch makes a running controller watch GlobalServices, once they have been read.
func (k *globalKind) watch(ctx context.Context, c controller.Controller) error {
	sync, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	if _, err := k.cache.GetInformer(sync, globalMetadata()); err != nil {
		return err
	}
	return c.Watch(k.source())
}

func (k *globalKind) source() source.Source {
	return source.Kind[client.Object](k.cache, globalMetadata(), enqueueService())
}

// follow makes a running controller watch GlobalServices when they are installed, and removes their informer when they are uninstalled.
// again receives an event when all services are to be written again. It returns when ctx ends.
func (k *globalKind) follow(ctx context.Context, c controller.Controller, again chan<- event.GenericEvent) {
	log := logf.FromContext(ctx)
	tick := time.NewTicker(globalKindCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		installed, err := k.look(ctx)
		switch was := !k.missing.Load(); {
		case err != nil:
			log.V(1).Info("Can't tell whether GlobalService is installed", "reason", err.Error())
		case installed && !was:
			if err := k.watch(ctx, c); err != nil {
				log.Info("Can't watch GlobalServices", "reason", err.Error())
				continue
			}
			k.missing.Store(false)
			log.Info("GlobalService is installed: writing GlobalServices")
			select {
			case again <- event.GenericEvent{Object: &corev1.Node{}}:
			case <-ctx.Done():
			}
		case !installed:
			if was {
				k.missing.Store(true)
				log.Info("GlobalService has been uninstalled. Everything else is still imported")
			}
			// Repeated, because a reconcile that had already begun may have started it again.
			if err := k.cache.RemoveInformer(ctx, globalMetadata()); err != nil {
				log.V(1).Info("Can't stop watching GlobalServices", "reason", err.Error())
			}
		}
	}
}
