// Package v1alpha1 has GlobalService of group dns.fabedge.io, FabDNS's description of a service that runs in several clusters.
// The plugin answers <service>.<namespace>.svc.global from it.
//
// FabDNS's fields keep their names, types and lax validation, so that what FabDNS or its users wrote can be applied and served
// unchanged. Our own fields are marked "clusterset:" and optional: without them, or with FabDNS's own CRD, which prunes them,
// detail is lost but nothing breaks. Sanitized handles what the lax schema allows.
//
// +kubebuilder:object:generate=true
// +groupName=dns.fabedge.io
package v1alpha1
