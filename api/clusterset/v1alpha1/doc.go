// Package v1alpha1 has the types of group clusterset.dev: ExportedService and ExportedEndpoints, from an exporter to every importer by
// way of the hub; MemberCluster, from the hub to everyone; and Reachability, which stays in the member whose agent measured it.
//
// The namespace of an ExportedService or ExportedEndpoints determines its source cluster (SourceCluster); no field does. All
// readers on the hub must use Sanitized: the schema's limits hold only on a hub with unmodified CRDs, and a member is trusted
// to describe its own services, but not to be well-behaved.
//
// +kubebuilder:object:generate=true
// +groupName=clusterset.dev
package v1alpha1
