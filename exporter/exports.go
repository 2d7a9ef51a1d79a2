package exporter

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// exports is the member's ServiceExports, in the version that its API server serves: v1beta1, or v1alpha1 where only that
// is. The two have the same fields; everything but this file works with v1beta1.
type exports struct {
	client client.Client
	alpha  bool
}

// newExports asks which version is served. Where none is, the error says what to do.
func newExports(c client.Client) (exports, error) {
	kind := schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceExportKindName}
	for _, version := range []string{mcsv1beta1.GroupVersion.Version, mcsv1alpha1.GroupVersion.Version} {
		_, err := c.RESTMapper().RESTMapping(kind, version)
		if err == nil {
			return exports{client: c, alpha: version == mcsv1alpha1.GroupVersion.Version}, nil
		}
		if !meta.IsNoMatchError(err) {
			return exports{}, fmt.Errorf("find the served version of ServiceExport: %w", err)
		}
	}
	return exports{}, fmt.Errorf("this cluster doesn't serve %s; install the CRDs of the Multi-Cluster Services API", kind)
}

// object returns an object of the served version, to watch it by.
func (e exports) object() client.Object {
	if e.alpha {
		return &mcsv1alpha1.ServiceExport{}
	}
	return &mcsv1beta1.ServiceExport{}
}

// get returns the ServiceExport, nil where there is none.
func (e exports) get(ctx context.Context, key client.ObjectKey) (*mcsv1beta1.ServiceExport, error) {
	object := e.object()
	if err := e.client.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get ServiceExport %s: %w", key, err)
	}
	return decode(object), nil
}

// keys returns the key of every ServiceExport.
func (e exports) keys(ctx context.Context) ([]client.ObjectKey, error) {
	var list client.ObjectList = &mcsv1beta1.ServiceExportList{}
	if e.alpha {
		list = &mcsv1alpha1.ServiceExportList{}
	}
	if err := e.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list ServiceExports: %w", err)
	}
	var keys []client.ObjectKey
	err := meta.EachListItem(list, func(o runtime.Object) error {
		keys = append(keys, client.ObjectKeyFromObject(o.(client.Object)))
		return nil
	})
	return keys, err
}

func (e exports) create(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	return e.client.Create(ctx, e.encode(export), client.FieldOwner(api.FieldManagerExporter))
}

// delete deletes the ServiceExport as it was read: if its user has made it their own in the meantime, it stays.
func (e exports) delete(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	as := client.Preconditions{UID: &export.UID, ResourceVersion: &export.ResourceVersion}
	return e.client.Delete(ctx, e.encode(export), as)
}

// patchStatus writes what of the status differs from before. The lock is against another MCS implementation that writes
// conditions of its own into the same list.
func (e exports) patchStatus(ctx context.Context, before, after *mcsv1beta1.ServiceExport) error {
	patch := client.MergeFromWithOptions(e.encode(before), client.MergeFromWithOptimisticLock{})
	return e.client.Status().Patch(ctx, e.encode(after), patch, client.FieldOwner(api.FieldManagerExporter))
}

func (e exports) encode(export *mcsv1beta1.ServiceExport) client.Object {
	if !e.alpha {
		return export
	}
	return &mcsv1alpha1.ServiceExport{
		ObjectMeta: export.ObjectMeta,
		Spec:       mcsv1alpha1.ServiceExportSpec(export.Spec),
		Status:     mcsv1alpha1.ServiceExportStatus(export.Status),
	}
}

func decode(o client.Object) *mcsv1beta1.ServiceExport {
	export, ok := o.(*mcsv1alpha1.ServiceExport)
	if !ok {
		return o.(*mcsv1beta1.ServiceExport)
	}
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: export.ObjectMeta,
		Spec:       mcsv1beta1.ServiceExportSpec(export.Spec),
		Status:     mcsv1beta1.ServiceExportStatus(export.Status),
	}
}
