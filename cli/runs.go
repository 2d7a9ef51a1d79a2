package cli

import (
	"context"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterset/clusterset/api"
)

// runs remembers which processes held the cluster's name on the hub, in an annotation of the agent's Lease here: a cluster that was restored from
// another's backup doesn't know the other's later ones. It is an exporter.Runs.
type runs struct {
	here client.Client
	at   client.ObjectKey
}

// List implements exporter.Runs.
func (r runs) List(ctx context.Context) ([]string, error) {
	lease := &coordinationv1.Lease{}
	if err := r.here.Get(ctx, r.at, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Lease %s: %w", r.at, err)
	}
	return strings.FieldsFunc(lease.Annotations[api.AnnotationRuns], func(c rune) bool { return c == ',' }), nil
}

// Store implements exporter.Runs.
func (r runs) Store(ctx context.Context, all []string) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the leader renews it
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.at.Namespace, Name: r.at.Name}}
		_, err := controllerutil.CreateOrUpdate(ctx, r.here, lease, func() error {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, api.AnnotationRuns, strings.Join(all, ","))
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("write Lease %s: %w", r.at, err)
	}
	return nil
}
