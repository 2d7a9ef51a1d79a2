package exporter

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
	"github.com/clusterset/clusterset/internal/record"
)

// reasonNamespaceExcluded is why a ServiceExport isn't valid in a namespace that the agent doesn't export from.
const reasonNamespaceExcluded mcsv1beta1.ServiceExportConditionReason = "NamespaceExcluded"

// reasonNamespaceFull is why a ServiceExport isn't valid in a namespace of which as many are exported as may be.
const reasonNamespaceFull mcsv1beta1.ServiceExportConditionReason = "NamespaceFull"

// desired computes the records of one service.
//
// A ServiceExport or Service that is being deleted counts as deleted: its user wants it gone, and a foreign finalizer (a load
// balancer's, for example) should not keep the name alive in other clusters.
func desired(src Source) Desired {
	if src.Export == nil || src.Export.DeletionTimestamp != nil {
		return Desired{}
	}
	if refusal := refuse(src); refusal != nil {
		return Desired{Refused: refusal}
	}
	exported := exportedService(src)
	stated, wrong := statedPolicy(src)
	exported.Spec.Policy = policy.Export(stated)
	share, wrongShare := statedShare(src)
	to, wrongTo := exportTo(src)
	exported.Spec.Share, exported.Spec.ExportTo, wrong = share, to, slices.Concat(wrong, wrongShare, wrongTo, unknownKeys(src))
	service, left := exported.Sanitized()
	if service == nil {
		// This can't happen: the API server has checked the names, and the type and the time are ours. If it does, report it.
		return Desired{Refused: &Refusal{mcsv1beta1.ServiceExportReasonInvalidServiceType, left.String()}}
	}
	d := Desired{Service: service, LeftOut: api.Left(wrong...)}
	d.LeftOut.Append(left)
	for _, slice := range record.Exportable(src.Slices) {
		for _, part := range record.Endpoints(src.Cluster, src.Key, slice) {
			if at, ok := api.TriggerTime(part.Annotations); ok && at.Before(src.Export.CreationTimestamp.Time) {
				part.Annotations = nil // a change from before the export: the time since then isn't a delay
			}
			d.Endpoints = d.sanitized(d.Endpoints, &part)
		}
	}
	d.addExternal(&src)
	for i := range d.Endpoints {
		_, _, suffix, _ := api.ParseExportedEndpointsName(d.Endpoints[i].Name)
		service.Spec.Endpoints = append(service.Spec.Endpoints, suffix)
	}
	slices.Sort(service.Spec.Endpoints)
	service.Spec.Endpoints = service.Spec.Endpoints[:min(len(service.Spec.Endpoints), merge.MaxSlices)] // more aren't imported
	return d
}

// Exported returns the records that a Service would have on the hub if it were exported now, and what can't be exported of it.
// The error says why nothing can be exported.
func Exported(src Source, now metav1.Time) (Records, field.ErrorList, error) {
	if src.Export == nil {
		src.Export = &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: src.Key.Namespace, Name: src.Key.Name, CreationTimestamp: now}}
	}
	d := desired(src)
	switch {
	case d.Refused != nil:
		return Records{}, nil, errors.New(d.Refused.Message)
	case d.Service == nil:
		return Records{}, nil, fmt.Errorf("the ServiceExport %s is being deleted", src.Key)
	}
	return Records{d.Service, d.Endpoints}, d.LeftOut.List(), nil
}

// sanitized appends what of a record can be exported.
func (d *Desired) sanitized(to []clustersetv1alpha1.ExportedEndpoints, e *clustersetv1alpha1.ExportedEndpoints) []clustersetv1alpha1.ExportedEndpoints {
	clean, left := e.Sanitized()
	d.LeftOut.Append(left)
	if clean == nil || len(clean.Spec.Endpoints) == 0 {
		return to
	}
	return append(to, *clean)
}

// addExternal adds the records of the Service's external addresses. A headless one has none.
func (d *Desired) addExternal(src *Source) {
	var r reachability
	if d.Service.Spec.Type != mcsv1beta1.Headless {
		r = externalAddresses(src)
		for _, e := range externalRecords(src, &r) {
			d.external = d.sanitized(d.external, &e)
		}
		for _, err := range r.wrong {
			d.LeftOut.Add(func() *field.Error { return err })
		}
		d.Endpoints = append(d.Endpoints, d.external...)
	}
	if len(d.external) == 0 {
		d.reason, d.noExternal = r.why(src.Service)
	}
}

// refuse returns why the Service can't be exported, or nil if it can.
func refuse(src Source) *Refusal {
	because := func(reason mcsv1beta1.ServiceExportConditionReason, format string, args ...any) *Refusal {
		return &Refusal{reason, fmt.Sprintf(format, args...)}
	}
	switch svc := src.Service; {
	case src.Excluded:
		return because(reasonNamespaceExcluded,
			"this cluster's agent exports nothing from namespace %s; its flags --export-namespaces and --exclude-export-namespaces say so", src.Key.Namespace)
	case src.Full > 0:
		return because(reasonNamespaceFull,
			"this cluster's agent already exports %d services of namespace %s, the most that its flag --max-exports-per-namespace allows; it exports this one once another isn't exported any more",
			src.Full, src.Key.Namespace)
	case svc == nil:
		return because(mcsv1beta1.ServiceExportReasonNoService, "there is no Service %s; it will be exported once there is", src.Key)
	case svc.DeletionTimestamp != nil:
		return because(mcsv1beta1.ServiceExportReasonNoService, "Service %s is being deleted", src.Key)
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return because(mcsv1beta1.ServiceExportReasonInvalidServiceType, "Service %s is of type ExternalName, which has no endpoints to export", src.Key)
	case imported(svc):
		// Its endpoints are in other clusters. Exporting them would return them to those clusters as ours.
		return because(mcsv1beta1.ServiceExportReasonInvalidServiceType,
			"Service %s belongs to an import; export the Service it comes from, in its own cluster", src.Key)
	}
	return nil
}

// imported reports whether a Service is part of an import: the derived Service of a ServiceImport, ours or another MCS
// implementation's.
func imported(svc *corev1.Service) bool {
	_, derived := svc.Labels[api.LabelServiceName]
	return derived || svc.Labels[api.LabelManagedBy] == api.ManagedByImporter
}

// exportedService returns the record of the Service before anything invalid is removed.
func exportedService(src Source) *clustersetv1alpha1.ExportedService {
	svc, export := src.Service, src.Export
	exported := &clustersetv1alpha1.ExportedService{
		ObjectMeta: record.Meta(src.Cluster, src.Key, api.ExportedServiceName(src.Key.Namespace, src.Key.Name)),
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace:      src.Key.Namespace,
			ServiceName:           src.Key.Name,
			Type:                  mcsv1beta1.ClusterSetIP,
			ClusterIPs:            svc.Spec.ClusterIPs,
			IPFamilies:            svc.Spec.IPFamilies,
			SessionAffinity:       svc.Spec.SessionAffinity,
			SessionAffinityConfig: svc.Spec.SessionAffinityConfig,
			InternalTrafficPolicy: svc.Spec.InternalTrafficPolicy,
			TrafficDistribution:   svc.Spec.TrafficDistribution,
			// Only from the spec: labels and annotations in metadata are for this cluster (KEP-1645, "Service and EndpointSlice
			// Labels").
			ExportedLabels:      export.Spec.ExportedLabels,
			ExportedAnnotations: export.Spec.ExportedAnnotations,
			ExportedAt:          export.CreationTimestamp,
		},
	}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		exported.Spec.Type = mcsv1beta1.Headless
		exported.Spec.ClusterIPs = nil
	}
	for _, p := range svc.Spec.Ports {
		port := clustersetv1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port}
		if p.TargetPort != intstr.FromInt32(0) {
			port.TargetPort = &p.TargetPort
		}
		exported.Spec.Ports = append(exported.Spec.Ports, port)
	}
	return exported
}
