package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// globalKindCheck is how often the importer looks whether GlobalService has been installed. The kind is FabDNS's, and may come with it.
const globalKindCheck = 10 * time.Second

// hasGlobalKind reports whether this cluster has the kind GlobalService.
func hasGlobalKind(ctx context.Context, live client.Reader) (bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalServiceList"))
	err := live.List(ctx, &list, client.Limit(1))
	if err != nil && !isMissing(err) {
		return false, fmt.Errorf("list GlobalServices: %w", err)
	}
	return err == nil, nil
}

// isMissing reports whether an object or its kind doesn't exist any more.
func isMissing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// errGlobalKind ends the agent, which begins anew with the kind.
var errGlobalKind = errors.New("GlobalService has been installed: the agent ends, and writes GlobalServices when it is started again")

// awaitGlobalKind returns an error once the kind is installed, and nil if ctx ends before.
func awaitGlobalKind(ctx context.Context, live client.Reader) error {
	if wait.PollUntilContextCancel(ctx, globalKindCheck, false, func(ctx context.Context) (bool, error) {
		has, _ := hasGlobalKind(ctx, live) // an API server that doesn't answer is asked again
		return has, nil
	}) != nil {
		return nil
	}
	return errGlobalKind
}
