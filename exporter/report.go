package exporter

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// reporter writes what this cluster says about itself to the hub (rule C29 of docs/spec/control-plane.md).
type reporter struct {
	hub  client.Client
	opts Options

	wrote *clustersetv1alpha1.MemberReportSpec // that the hub has; nil: unknown
	seen  time.Time                            // when the hub was last known to have it
}

// lookEvery is how often the report is read back, in intervals of the heartbeat: a thief of the token may have changed it.
const lookEvery = 6

// doubt makes the next report read what the hub has.
func (r *reporter) doubt() { r.wrote = nil }

// bringUpToDate writes the report if it has changed, or if the hub may not have it.
func (r *reporter) bringUpToDate(ctx context.Context) error {
	want := clustersetv1alpha1.MemberReportSpec{AgentVersion: r.opts.Version}
	// What isn't known is left out, so that the hub process keeps what it knows: an agent that was restarted, or lost the right to read nodes,
	// hasn't moved its cluster.
	if zones, known := r.opts.Nodes.Zones(); known {
		want.Zones = append([]string{}, zones[:min(len(zones), clustersetv1alpha1.MaxZones)]...)
	}
	if r.opts.Report != nil {
		r.opts.Report(ctx, &want)
	}
	if r.wrote != nil && time.Since(r.seen) < lookEvery*r.opts.HeartbeatInterval && reflect.DeepEqual(*r.wrote, want) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	if err := r.write(ctx, want); err != nil {
		return fmt.Errorf("write MemberReport %s/%s: %w", api.MemberNamespace(r.opts.Cluster), clustersetv1alpha1.MemberReportName, err)
	}
	r.wrote, r.seen = &want, time.Now()
	return nil
}

// write writes the report. What somebody else left in its metadata goes, as in the Lease.
func (r *reporter) write(ctx context.Context, want clustersetv1alpha1.MemberReportSpec) error {
	is := &clustersetv1alpha1.MemberReport{}
	err := r.hub.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(r.opts.Cluster), Name: clustersetv1alpha1.MemberReportName}, is)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	report := &clustersetv1alpha1.MemberReport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(r.opts.Cluster), Name: clustersetv1alpha1.MemberReportName, ResourceVersion: is.ResourceVersion,
			Labels: map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: r.opts.Cluster},
		},
		Spec: want,
	}
	if apierrors.IsNotFound(err) {
		return r.hub.Create(ctx, report, client.FieldOwner(api.FieldManagerExporter))
	}
	if reflect.DeepEqual(is.Spec, want) && maps.Equal(is.Labels, report.Labels) && len(is.Annotations) == 0 {
		return nil
	}
	report.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	return r.hub.Update(ctx, report, client.FieldOwner(api.FieldManagerExporter))
}
