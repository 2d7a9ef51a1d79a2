// Package api holds what every part of clusterset has to agree on: the names of labels, annotations, namespaces and
// objects (this file), and the rules for data that nobody should trust (check.go). The object types lie below it, in
// api/clusterset/v1alpha1 and api/fabedge/v1alpha1.
//
// The CoreDNS binary imports this package, so it stays free of client-go and controller-runtime.
package api

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Domain is the prefix of every label and annotation key that is ours, and our API group.
const Domain = "clusterset.dev"

// Namespaces.
const (
	// MemberNamespacePrefix begins the name of a member's namespace on the hub. See MemberNamespace.
	MemberNamespacePrefix = "clusterset-member-"

	// SystemNamespace is where our own Deployments and Secrets live unless someone chooses otherwise.
	SystemNamespace = "clusterset-system"
)

// Ownership. We change or delete an object only where this label says that it is ours; everything else belongs to a
// user, to FabDNS or to another MCS implementation.
const (
	// LabelManagedBy says which of our components wrote an object. Its values are the ManagedBy constants.
	LabelManagedBy = Domain + "/managed-by"

	// ManagedByImporter marks what the importer writes in a member: ServiceImports, EndpointSlices, GlobalServices,
	// derived Services, MemberCluster mirrors and, with --create-namespaces, Namespaces.
	ManagedByImporter = "importer"

	// ManagedByExporter marks what the exporter writes: its records on the hub, and in the member the ServiceExport
	// of a Service that carries KeyGlobalService.
	ManagedByExporter = "exporter"

	// ManagedByJoin marks what `clusterset join` makes on the hub and `leave` takes away.
	ManagedByJoin = "join"

	// ManagedByHub marks what the hub process makes on the hub for a MemberCluster (package hub/members).
	ManagedByHub = "hub"

	// EndpointSliceManagedBy is our value of LabelEndpointSliceManagedBy. A value other than the built-in
	// controller's keeps that controller from deleting slices that have no local Service behind them.
	EndpointSliceManagedBy = "endpointslice-importer." + Domain
)

// Field managers, for server-side apply: one per writer, so that their fields never get mixed up.
const (
	FieldManagerExporter = "clusterset-exporter"
	FieldManagerImporter = "clusterset-importer"
	FieldManagerHub      = "clusterset-hub"
	FieldManagerCLI      = "clusterset-cli"
)

// Labels.
const (
	// LabelCluster holds a member's name: on its namespace on the hub, and on its records there for those who look.
	// Nothing decides by it: a record's cluster is the one of its namespace (ClusterOfNamespace).
	LabelCluster = Domain + "/cluster"

	// LabelExportedNamespace and LabelExportedName hold the namespace and name of the exported Service, on
	// ExportedService and ExportedEndpoints, so that one service can be listed across members.
	LabelExportedNamespace = Domain + "/service-namespace"
	LabelExportedName      = Domain + "/service-name"

	// LabelServiceName is the MCS label that links an EndpointSlice (and a derived Service) to its ServiceImport.
	LabelServiceName = mcsv1beta1.LabelServiceName

	// LabelSourceCluster is the MCS label that names the cluster an EndpointSlice's endpoints lie in.
	LabelSourceCluster = mcsv1beta1.LabelSourceCluster

	// LabelEndpointSliceManagedBy is the Kubernetes label that says whose an EndpointSlice is.
	LabelEndpointSliceManagedBy = discoveryv1.LabelManagedBy

	// LabelKubernetesServiceName is the Kubernetes label that links an EndpointSlice to a Service of its namespace;
	// kube-proxy goes by it. Ours name the derived Service.
	LabelKubernetesServiceName = discoveryv1.LabelServiceName
)

// HintNone is the zone that endpoints behind a ClusterSetIP are hinted for which are best for no zone: kube-proxy goes by hints
// only where every ready endpoint has one.
const HintNone = "none." + Domain

// The policy of one service: which of its endpoints are used from where. On a ServiceExport, or on a Service that is exported
// by KeyGlobalService, people state it; on the ServiceImport and the GlobalService it says what the merged exports came to, and
// DNS reads it there. internal/policy reads and writes these, and internal/topology's Policy is what they mean.
const (
	// AnnotationPrefer lists the tiers of endpoints that are preferred, the most wanted first: one or more of cluster, zone and
	// region, separated by blanks, or none.
	AnnotationPrefer = Domain + "/prefer"

	// AnnotationBoundary is cluster, zone or region. Endpoints outside of the client's are never used.
	AnnotationBoundary = Domain + "/boundary"

	// AnnotationMinReady is how many ready endpoints make a tier enough, a positive integer; below that the next tier joins
	// it. Left out, it is 1.
	AnnotationMinReady = Domain + "/min-ready"
)

// Annotations.
const (
	// AnnotationAgentVersion holds the member agent's version, on its heartbeat Lease.
	AnnotationAgentVersion = Domain + "/agent-version"

	// AnnotationClusterUID holds, on the heartbeat Lease, which cluster renews it: the UID of its kube-system namespace,
	// which KEP-2149 suggests as a cluster's identity.
	AnnotationClusterUID = Domain + "/cluster-uid"

	// AnnotationRun holds, on the heartbeat Lease, which process of the agent renewed it: a random UUID.
	AnnotationRun = Domain + "/run"

	// AnnotationStarted holds, on the heartbeat Lease, when that process started, by its own clock (RFC 3339). Of two that renew the Lease
	// in turn, because a cluster was restored from another's backup, the one that started later stops.
	AnnotationStarted = Domain + "/started"

	// AnnotationYields holds, on the heartbeat Lease, when the agent that stopped so last said that it is there (RFC 3339, by its own
	// clock). The agent that goes on takes it away when that is over.
	AnnotationYields = Domain + "/yields"

	// ReasonClusterCloned and ReasonNameTaken are why a ServiceExport isn't Ready while its cluster exports nothing: another agent works
	// under this cluster's name, with the same identity or another.
	ReasonClusterCloned = "ClusterCloned"
	ReasonNameTaken     = "NameTaken"

	// AnnotationZones lists, on the heartbeat Lease, the zones that the nodes of the cluster that renews it lie in, separated by
	// commas. It is not there where these aren't known.
	AnnotationZones = Domain + "/zones"

	// AnnotationWithdrawn with any value says of a record on the hub that its exporter is about to delete it: the service is
	// un-exported, the endpoints are gone. Importers see it on the deleted record. One that goes without it was deleted by
	// somebody else, and its exporter is about to write it anew.
	AnnotationWithdrawn = Domain + "/withdrawn"

	// AnnotationJoined holds, on a MemberCluster, when the cluster joined the set (RFC 3339). No export counts as older than that.
	// The importer notes it on its copies, and `join --rejoin` takes it from there to a hub that lost the MemberCluster.
	AnnotationJoined = Domain + "/joined"

	// AnnotationCredentials holds, on a member's ServiceAccount that the hub process made, what became of its first credentials.
	AnnotationCredentials = Domain + "/credentials"

	// AnnotationExportedLabels and AnnotationExportedAnnotations note on a ServiceImport, separated by commas, the keys of
	// the exported labels and annotations that it carries. So those which are no longer exported can be told from those
	// that someone else put there, and go.
	AnnotationExportedLabels      = Domain + "/exported-labels"
	AnnotationExportedAnnotations = Domain + "/exported-annotations"

	// AnnotationDerivedService holds the derived Service's name, on a ServiceImport.
	AnnotationDerivedService = Domain + "/derived-service"
)

// FabDNS's keys, which we honour or recognise.
const (
	// KeyGlobalService, as a label (FabDNS) or as an annotation (so that an object whose labels are managed elsewhere
	// can be exported too), exports a Service where its value is "true", and on a Namespace all its Services. See IsGlobal.
	KeyGlobalService = "fabedge.io/global-service"

	// LabelFabDNSCreatedBy with the value FabDNSServiceHub marks a GlobalService that FabDNS's service-hub wrote. The
	// importer leaves such objects alone.
	LabelFabDNSCreatedBy = "fabedge.io/created-by"
	FabDNSServiceHub     = "service-hub"
)

// Well-known object names.
const (
	// HeartbeatLease is the Lease in a member's namespace on the hub that its agent renews.
	HeartbeatLease = "clusterset-heartbeat"

	// MemberServiceAccount is the ServiceAccount in a member's namespace on the hub whose token its agent holds.
	MemberServiceAccount = "clusterset-member"

	// MemberRole (in a member's namespace: write) and MemberClusterRole (read our group) are what that account has.
	MemberRole        = "clusterset-member"
	MemberClusterRole = "clusterset-member-reader"

	// MembersBinding is the ClusterRoleBinding by which the accounts have MemberClusterRole that the hub process made.
	MembersBinding = "clusterset-members"

	// RecordsQuota is the ResourceQuota in a member's namespace on the hub that bounds how many records it has there.
	RecordsQuota = "clusterset-records"

	// NetworksConfigMap in a member's namespace on the hub holds, under NetworksKey, the networks that its MemberCluster
	// declares, separated by commas, for the admission policy.
	NetworksConfigMap = "clusterset-networks"
	NetworksKey       = "cidrs"

	// HubSecret is the Secret in SystemNamespace of a member that holds its kubeconfig for the hub, under
	// HubSecretKey. On the hub, in a member's namespace, it is there until the agent has it, where the hub process made the member.
	HubSecret    = "clusterset-hub-credentials"
	HubSecretKey = "kubeconfig"

	// HubLeaderLease and MemberLeaderLease are the Leases our processes elect their leaders with.
	HubLeaderLease    = "clusterset-hub-leader"
	MemberLeaderLease = "clusterset-member-leader"

	// ClusterProperty and ClusterSetProperty name the about.k8s.io ClusterProperties (KEP-2149) that hold the
	// cluster's and the set's name.
	ClusterProperty    = "cluster.clusterset.k8s.io"
	ClusterSetProperty = "clusterset.k8s.io"

	// DerivedServicePrefix begins the name of the Service that gives a ServiceImport its ClusterSetIP.
	DerivedServicePrefix = "derived-"

	// ImportedSlicePrefix begins the names of the EndpointSlices that the importer writes: imported-<cluster>-…
	ImportedSlicePrefix = "imported-"
)

// MemberFinalizer keeps a MemberCluster that is deleted on the hub for a while, so that everybody learns that the cluster has
// left: one that is missing altogether is one that the hub has lost. The hub process takes it off after a week, `clusterset join`
// when the name is taken up again.
//
// It is the only finalizer of ours. Any other deletion that nobody was there to see is made up for by the full pass each process
// does at its start, and a finalizer would let an absent agent block the deletion of someone's namespace.
const MemberFinalizer = Domain + "/member"

// MaxMemberName is the longest name a member can have, in bytes: with MemberNamespacePrefix it has to make a namespace.
const MaxMemberName = 63 - len(MemberNamespacePrefix)

// MemberNamespace returns the namespace on the hub that belongs to the member cluster alone.
func MemberNamespace(cluster string) string { return MemberNamespacePrefix + cluster }

// ClusterOfNamespace returns the member that a namespace on the hub belongs to, and whether it is a member's at all.
// It is where the identity of a record comes from: RBAC decides who may write in the namespace, the payload is just
// what that member says.
func ClusterOfNamespace(namespace string) (cluster string, ok bool) {
	cluster, ok = strings.CutPrefix(namespace, MemberNamespacePrefix)
	if !ok || CheckMemberName(cluster) != nil {
		return "", false
	}
	return cluster, true
}

// IsGlobal says whether the labels or annotations of a Service, or of a Namespace, ask for export by KeyGlobalService. One "true" is enough:
// whoever sets the annotation on a Service labelled "false" by a template means the annotation.
func IsGlobal(labels, annotations map[string]string) bool {
	return labels[KeyGlobalService] == "true" || annotations[KeyGlobalService] == "true"
}

// KeepsLocal says whether a Service's labels or annotations keep it from being exported with its namespace, where that has the mark:
// KeyGlobalService is "false" there, and nowhere "true".
func KeepsLocal(labels, annotations map[string]string) bool {
	return (labels[KeyGlobalService] == "false" || annotations[KeyGlobalService] == "false") && !IsGlobal(labels, annotations)
}

// ExportedServiceName returns the name of the ExportedService of a Service: "<service>.<namespace>". Neither part can
// hold a dot, so the name can be taken apart again.
func ExportedServiceName(namespace, service string) string { return service + "." + namespace }

// ParseExportedServiceName takes apart what ExportedServiceName made; ok is false for any other name.
func ParseExportedServiceName(name string) (namespace, service string, ok bool) {
	service, namespace, ok = strings.Cut(name, ".")
	if !ok || CheckLabel(service) != nil || CheckLabel(namespace) != nil {
		return "", "", false
	}
	return namespace, service, true
}

// ExportedEndpointsName returns the name of the ExportedEndpoints that holds the chunk'th (from 0) part of a Service's
// EndpointSlice: "<service>.<namespace>.<hash of the slice's name>-<chunk>". The slice's own name can be too long to
// be part of it.
func ExportedEndpointsName(namespace, service, slice string, chunk int) string {
	return ExportedServiceName(namespace, service) + "." + shortHash(slice) + "-" + strconv.Itoa(chunk)
}

// DerivedServiceName returns the name of the derived Service of the ServiceImport namespace/name. It depends on
// nothing else, so that a ServiceImport keeps its ClusterSetIP whatever restarts.
func DerivedServiceName(namespace, name string) string {
	return DerivedServicePrefix + shortHash(namespace+"/"+name)
}

// shortHash returns 16 hex digits of s's SHA-256: 64 bits, enough for names within one namespace.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
