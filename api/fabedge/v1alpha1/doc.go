// Package v1alpha1 holds GlobalService of group dns.fabedge.io, FabDNS's description of a service that lives in several
// clusters. The plugin answers <service>.<namespace>.svc.global from it.
//
// FabDNS's fields keep their names, types and laxness, so that whatever FabDNS or its users wrote applies and serves
// unchanged. Fields of ours are marked "clusterset:" and optional: leaving them out, or serving the objects from FabDNS's
// own CRD, which prunes them, loses detail but breaks nothing. What the lax schema lets through is dealt with by
// Sanitized.
//
// +kubebuilder:object:generate=true
// +groupName=dns.fabedge.io
package v1alpha1
