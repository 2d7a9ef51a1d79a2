package importer

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/internal/door/store"
)

// StoreOptions returns the options of the store that Setup uses.
func StoreOptions(mgr manager.Manager, o Options) store.Options {
	o, _ = o.withDefaults()                 // Setup returns what is wrong with them
	leftOutGauge.WithLabelValues(o.Cluster) // so that the metric exists from the start; a cluster's own records are never left out
	return store.Options{
		Cluster: o.Cluster, MaxMemory: o.RecordMemory, MaxServices: o.MaxServices,
		Over: overQuota(mgr.GetLogger(), mgr.GetEventRecorder("clusterset-importer"), o.RecordMemory),
	}
}

// overQuota returns a function that reports that records of a cluster are left out, or no longer are.
func overQuota(log logr.Logger, recorder events.EventRecorder, limit int) func(cluster string, over bool) {
	return func(cluster string, over bool) {
		if !over {
			leftOutGauge.WithLabelValues(cluster).Set(0)
			log.Info("Reading again the records of a cluster that were left out, because it has fewer now", "exporter", cluster)
			return
		}
		leftOutGauge.WithLabelValues(cluster).Set(1)
		log.Info("Left out records of a cluster, because they take more memory here than those of one cluster may", "exporter", cluster, "bytes", limit)
		recorder.Eventf(memberNamed(cluster), nil, corev1.EventTypeWarning, reasonTooMuchMemory, "Import",
			"the records of cluster %s take more than %d MiB here; further ones are left out, and changes that need more. Check whether its token was stolen, or raise --max-record-memory in all members",
			cluster, limit>>20)
	}
}
