package importer

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// removePage is how many GlobalServices are read per request. Each may be a MiB.
const removePage = 50

// removeGlobalServices deletes the GlobalServices written before --skip-global-services was set: nothing would update them, and
// DNS servers would keep serving them in both zones. It reads from the API server, because a kind that doesn't exist can't be
// watched.
func removeGlobalServices(ctx context.Context, l *local) error {
	var all fabedgev1alpha1.GlobalServiceList
	for {
		err := l.live.List(ctx, &all, client.MatchingLabels(desired.Labels()), client.Limit(removePage), client.Continue(all.Continue))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list GlobalServices: %w", err)
		}
		var errs []error
		for i := range all.Items {
			errs = append(errs, l.remove(ctx, &all.Items[i]))
		}
		if err := errors.Join(errs...); err != nil || all.Continue == "" {
			return err
		}
	}
}
