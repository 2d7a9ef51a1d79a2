package exporter

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/record"
)

// abandoned reports whether a Service exists whose ServiceExport doesn't.
func abandoned(src Source) bool {
	return (src.Export == nil || src.Export.DeletionTimestamp != nil) && src.Service != nil && src.Service.DeletionTimestamp == nil
}

// staying returns what is wanted on the hub of a service, of which something stays if its Service or ServiceExport is missing, and when to look
// again. marking means that a mark asks for the ServiceExport, and it can't be created for the moment: then it isn't withdrawn. Rules C7 and C8 of
// docs/spec/control-plane.md.
func (r *reconciler) staying(ctx context.Context, src Source, want Desired, onHub *clustersetv1alpha1.ExportedService, known *serviceState, marking bool) (Desired, decision, error) {
	missing := src.Service == nil || src.Service.DeletionTimestamp != nil
	nothing := !onHub.Exports() || src.Excluded
	since := known.missing.note(missing && !nothing)
	if !abandoned(src) { // else what was un-exported stays known: a hub that is restored may bring back its record
		r.withdrawals.forget(src.Key)
	}
	switch {
	case nothing:
		return want, decision{}, nil
	case missing && since < r.withdrawals.replaceFor:
		return Desired{Service: nameAlone(src, onHub), Refused: want.Refused}, decision{retry: r.withdrawals.replaceFor - since}, nil
	case !abandoned(src):
		return want, decision{}, nil
	}
	withdrawal, err := r.withdrawals.ask(ctx, src.Key)
	if err != nil || withdrawal.retry == 0 && !marking {
		return want, withdrawal, err
	}
	if withdrawal.fresh {
		r.events.Eventf(src.Service, nil, corev1.EventTypeWarning, "WithdrawalHeld", "Export",
			"The ServiceExport was deleted, with many others or with its kind, and the Service stays exported for now. Create it again; or, to confirm, delete the Service or start the agent with --hold-withdrawals=0")
	}
	src.Export = keptExport(onHub, src.Key)
	src.External.Kept = true
	if src.Slices, err = r.slices(ctx, src.Key); err != nil {
		return want, withdrawal, err
	}
	kept := desired(src)
	kept.Refused = want.Refused
	return kept, withdrawal, nil
}

// nameAlone returns the record of a service that has no addresses, because its Service is gone.
func nameAlone(src Source, onHub *clustersetv1alpha1.ExportedService) *clustersetv1alpha1.ExportedService {
	name := &clustersetv1alpha1.ExportedService{ObjectMeta: record.Meta(src.Cluster, src.Key, onHub.Name), Spec: *onHub.Spec.DeepCopy()}
	name.Spec.ClusterIPs, name.Spec.Endpoints = nil, nil
	service, _ := name.Sanitized()
	return service
}

// keptExport returns a ServiceExport that leads to the same record.
func keptExport(onHub *clustersetv1alpha1.ExportedService, key types.NamespacedName) *mcsv1beta1.ServiceExport {
	stated, _ := policy.FromExport(onHub.Spec.Policy, nil)
	annotations := policy.Annotations(stated)
	if len(onHub.Spec.ExportTo) > 0 {
		annotations[api.AnnotationExportTo] = strings.Join(onHub.Spec.ExportTo, ",")
	}
	if share := onHub.Spec.Share; share != nil {
		annotations[api.AnnotationShare] = strconv.Itoa(int(*share))
	}
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, CreationTimestamp: onHub.Spec.ExportedAt, Annotations: annotations,
		},
		Spec: mcsv1beta1.ServiceExportSpec{ExportedLabels: onHub.Spec.ExportedLabels, ExportedAnnotations: onHub.Spec.ExportedAnnotations},
	}
}

const (
	// mostWithdrawn is how many records that were withdrawn may stay. The hub's quota has room for them (hub.MaxWithdrawn).
	mostWithdrawn = 1000
	// expireEvery is how often they are looked for.
	expireEvery = time.Minute
)

// expire deletes records that have been withdrawn for long, again and again until ctx ends.
func (r *reconciler) expire(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if r.pass.isDone() && r.synced() {
			r.expireOnce(ctx)
		}
	}, expireEvery)
	return nil
}

func (r *reconciler) expireOnce(ctx context.Context) {
	services, _ := r.onHub.OwnRecords()
	for _, s := range expired(services, r.now()) {
		r.states.expire(keyOf(s))
		as := client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion} // it may be exported again
		if err := client.IgnoreNotFound(r.hub.Delete(ctx, s.DeepCopy(), as)); err != nil {
			if ctx.Err() == nil {
				log.FromContext(ctx).V(1).Info("Can't delete a record that was withdrawn long ago, trying again in a minute", "reason", err.Error())
			}
			return
		}
	}
}

// expired returns the withdrawn records that are older than a day, and the oldest beyond those that may stay.
func expired(all []*clustersetv1alpha1.ExportedService, now time.Time) []*clustersetv1alpha1.ExportedService {
	withdrawn := slices.DeleteFunc(slices.Clone(all), (*clustersetv1alpha1.ExportedService).Exports)
	slices.SortFunc(withdrawn, func(a, b *clustersetv1alpha1.ExportedService) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
	day := now.Add(-withdrawnFor).UnixMilli()
	old, _ := slices.BinarySearchFunc(withdrawn, day, func(s *clustersetv1alpha1.ExportedService, day int64) int { return cmp.Compare(s.Spec.Revision, day) })
	return withdrawn[:max(old, len(withdrawn)-mostWithdrawn)]
}
