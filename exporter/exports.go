package exporter

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/mcs"
)

// serviceExports reads and writes the member's ServiceExports in the version that its API server serves.
type serviceExports struct {
	client  client.Client
	version mcs.Version
}

// newServiceExports asks which version is served. If none is, the error says what to do.
func newServiceExports(c client.Client) (serviceExports, error) {
	version, err := mcs.Served(c.RESTMapper(), mcsv1beta1.ServiceExportKindName)
	if meta.IsNoMatchError(err) {
		return serviceExports{}, fmt.Errorf("this cluster doesn't serve %s.%s; install the CRDs of the Multi-Cluster Services API",
			mcsv1beta1.ServiceExportKindName, mcsv1beta1.GroupName)
	}
	return serviceExports{c, version}, err
}

// get returns the ServiceExport, or nil if there is none.
func (e serviceExports) get(ctx context.Context, key client.ObjectKey) (*mcsv1beta1.ServiceExport, error) {
	object := e.version.NewExport()
	if err := e.client.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get ServiceExport %s: %w", key, err)
	}
	return mcs.DecodeExport(object), nil
}

// list returns all ServiceExports. They belong to the cache.
func (e serviceExports) list(ctx context.Context) (all []client.Object, err error) {
	list := e.version.NewExportList()
	if err := e.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list ServiceExports: %w", err)
	}
	return all, meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, o.(client.Object))
		return nil
	})
}

// localTimeout is how long a write to the member's API server may take, for example because a webhook hangs.
const localTimeout = 15 * time.Second

func (e serviceExports) create(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	return e.client.Create(ctx, e.version.EncodeExport(export), client.FieldOwner(api.FieldManagerExporter))
}

// delete deletes the ServiceExport as it was read: if its user has taken it over in the meantime, it stays.
func (e serviceExports) delete(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	as := client.Preconditions{UID: &export.UID, ResourceVersion: &export.ResourceVersion}
	return e.client.Delete(ctx, e.version.EncodeExport(export), as)
}

// patchStatus writes the difference between before and after. The optimistic lock protects conditions that another MCS
// implementation writes into the same list.
func (e serviceExports) patchStatus(ctx context.Context, before, after *mcsv1beta1.ServiceExport) error {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	patch := client.MergeFromWithOptions(e.version.EncodeExport(before), client.MergeFromWithOptimisticLock{})
	return e.client.Status().Patch(ctx, e.version.EncodeExport(after), patch, client.FieldOwner(api.FieldManagerExporter))
}
