// Package v1alpha1 holds the objects of group clusterset.dev, which travel between a member cluster and the hub:
// ExportedService and ExportedEndpoints from an exporter to every importer, MemberCluster from the hub to everyone.
//
// The source cluster of an ExportedService or ExportedEndpoints is that of the namespace it lies in (SourceCluster), never
// a field. Whoever reads them off the hub goes through Sanitized: the schema's limits hold only on a hub that has our CRDs
// unchanged, and a member is trusted to speak for itself, not to be well-behaved.
//
// +kubebuilder:object:generate=true
// +groupName=clusterset.dev
package v1alpha1
