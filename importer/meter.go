package importer

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// sizeOfDeletion and sizeOfEvent are about how many bytes a deletion and an Event take in etcd.
const sizeOfDeletion, sizeOfEvent = 256, 1 << 10

// meter counts the bytes that a reconcile writes.
type meter struct{ bytes atomic.Int64 }

type meterKey struct{}

// metered returns a context in which writes are counted.
func metered(ctx context.Context) (context.Context, *meter) {
	m := &meter{}
	return context.WithValue(ctx, meterKey{}, m), m
}

func meterOf(ctx context.Context) *meter {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		return m
	}
	return &meter{}
}

// wrote counts an object that was written.
func (m *meter) wrote(verb string, o client.Object) {
	if verb == "delete" {
		m.bytes.Add(sizeOfDeletion)
	} else {
		m.bytes.Add(int64(sizeOf(o)))
	}
}

// sizeOf returns about how many bytes an object takes in etcd. Kubernetes' own kinds are stored in the form that Size is of.
func sizeOf(o client.Object) int {
	if sized, ok := o.(interface{ Size() int }); ok {
		return sized.Size()
	}
	meta := metav1.ObjectMeta{Labels: o.GetLabels(), Annotations: o.GetAnnotations(), ManagedFields: o.GetManagedFields(), OwnerReferences: o.GetOwnerReferences()}
	size := 512 + meta.Size()
	switch o := o.(type) {
	case *fabedgev1alpha1.GlobalService:
		size += 128*len(o.Spec.Ports) + desired.SizeOfEndpoints(o)
	case *mcsv1beta1.ServiceImport:
		size += 128*len(o.Spec.Ports) + 64*(len(o.Spec.IPs)+len(o.Status.Clusters))
		for i := range o.Status.Conditions {
			size += 128 + len(o.Status.Conditions[i].Message)
		}
	}
	return size
}
