// Package api has what all parts of clusterset must agree on: the names of labels, annotations, namespaces and objects (this file), and the
// rules for untrusted data (check.go). The object types are in api/clusterset/v1alpha1 and api/fabedge/v1alpha1.
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

// Domain is clusterset's API group, and the prefix of all of its label and annotation keys.
const Domain = "clusterset.dev"

// Namespaces.
const (
	// MemberNamespacePrefix begins the name of a member's namespace on the hub. See MemberNamespace.
	MemberNamespacePrefix = "clusterset-member-"

	// SystemNamespace is the default namespace of clusterset's own Deployments and Secrets.
	SystemNamespace = "clusterset-system"
)

// Ownership. clusterset changes or deletes an object only if this label says that clusterset wrote it. All other objects belong to a user,
// to FabDNS or to another MCS implementation.
const (
	// LabelManagedBy names the component that wrote an object. Its values are the ManagedBy constants.
	LabelManagedBy = Domain + "/managed-by"

	// ManagedByImporter marks what the importer writes in a member: ServiceImports, EndpointSlices, GlobalServices,
	// derived Services, MemberCluster mirrors and, with --create-namespaces, Namespaces.
	ManagedByImporter = "importer"

	// ManagedByExporter marks what the exporter writes: its records on the hub, and in the member the ServiceExport
	// of a Service that carries KeyGlobalService.
	ManagedByExporter = "exporter"

	// ManagedByJoin marks what `clusterset join` creates on the hub and `leave` deletes.
	ManagedByJoin = "join"

	// ManagedByHub marks what the hub process makes on the hub for a MemberCluster (package hub/members).
	ManagedByHub = "hub"

	// EndpointSliceManagedBy is clusterset's value of LabelEndpointSliceManagedBy. Because it differs from the built-in controller's value,
	// that controller doesn't delete slices without a local Service.
	EndpointSliceManagedBy = "endpointslice-importer." + Domain
)

// Field managers for server-side apply: one per writer, to keep their fields apart.
const (
	FieldManagerExporter = "clusterset-exporter"
	FieldManagerImporter = "clusterset-importer"
	FieldManagerHub      = "clusterset-hub"
	FieldManagerCLI      = "clusterset-cli"
)

// Labels.
const (
	// LabelCluster has a member's name, on its namespace on the hub and, for information, on its records there. No decision depends on it:
	// a record's cluster is that of its namespace (ClusterOfNamespace).
	LabelCluster = Domain + "/cluster"

	// LabelExportedNamespace and LabelExportedName hold the namespace and name of the exported Service, on
	// ExportedService and ExportedEndpoints, so that one service can be listed across members.
	LabelExportedNamespace = Domain + "/service-namespace"
	LabelExportedName      = Domain + "/service-name"

	// LabelServiceName is the MCS label that links an EndpointSlice (and a derived Service) to its ServiceImport.
	LabelServiceName = mcsv1beta1.LabelServiceName

	// LabelSourceCluster is the MCS label that names the cluster of an EndpointSlice's endpoints.
	LabelSourceCluster = mcsv1beta1.LabelSourceCluster

	// LabelEndpointSliceManagedBy is the Kubernetes label that names the controller of an EndpointSlice.
	LabelEndpointSliceManagedBy = discoveryv1.LabelManagedBy

	// LabelKubernetesServiceName is the Kubernetes label that links an EndpointSlice to a Service of its namespace; kube-proxy uses it. The
	// importer's slices name the derived Service.
	LabelKubernetesServiceName = discoveryv1.LabelServiceName
)

// A Service's own name.
const (
	// KeyExtend, as an annotation with the value ExtendTrue of a member's own Service, asks for endpoints of other clusters behind the
	// Service itself: its clients reach them, by the name that they always used, while the Service has no ready endpoint of its own. As
	// a label with the value ExtendAllowed of a namespace it lets the agent do that there.
	KeyExtend     = Domain + "/extend"
	ExtendTrue    = "true"
	ExtendAllowed = "allowed"

	// LabelExtends names the Service that an EndpointSlice of the importer extends. A Service that the importer made has its own name there.
	LabelExtends = Domain + "/extends"

	// KeyOwnNames is a label of a namespace. With the value OwnNamesCreate, the importer makes a Service for each imported service without one.
	KeyOwnNames    = Domain + "/own-names"
	OwnNamesCreate = "create"
)

// HintNone is the zone hint of endpoints behind a ClusterSetIP that aren't the best for any zone: kube-proxy ignores hints unless every
// ready endpoint has one.
const HintNone = "none." + Domain

// The policy of a service: which of its endpoints are used from which location. Users set it on a ServiceExport or on its Service; where
// both have a key, the ServiceExport's counts. The importer writes the merged policy to the ServiceImport and the GlobalService, where DNS reads it.
// internal/policy reads and writes these annotations, and topology.Policy defines their meaning.
const (
	// AnnotationPrefer lists the preferred tiers of endpoints, the most preferred first: one or more of cluster, zone and region, separated
	// by blanks, or none.
	AnnotationPrefer = Domain + "/prefer"

	// AnnotationBoundary is cluster, zone or region. Endpoints outside the client's are never used.
	AnnotationBoundary = Domain + "/boundary"

	// AnnotationMinReady is how many ready endpoints a tier needs, a positive integer. If it has fewer, the next tier is used as well. The
	// default is 1.
	AnnotationMinReady = Domain + "/min-ready"

	// AnnotationShare is how many per cent of the ready endpoints of one cluster's export are used as usual, 0 to 100. It holds for that export
	// alone. The importer writes the shares of all clusters that state less than 100 to AnnotationShares: "beijing=25 shanghai=0".
	AnnotationShare  = Domain + "/share"
	AnnotationShares = Domain + "/shares"
)

// Annotations.
const (
	// AnnotationExportTo, on a ServiceExport or on its Service, lists the clusters that import the service: names of clusters or of
	// communities, separated by commas or blanks. The ServiceExport's counts before the Service's. If no name is valid, only the service's
	// own cluster imports it. Without the annotation, all clusters import the service. Importers obey it; it is no protection, since rights on the hub decide what a cluster can read.
	AnnotationExportTo = Domain + "/export-to"

	// AnnotationExternalAddresses, on a ServiceExport or on its Service, lists the addresses at which clusters of other networks reach the
	// Service at its own ports, as IP addresses or DNS names separated by commas or blanks. It replaces those of load balancers and nodes.
	AnnotationExternalAddresses = Domain + "/external-addresses"

	// AnnotationExternal marks an imported EndpointSlice whose addresses are external ones of another cluster's Service: it holds how many
	// ready endpoints are behind them.
	AnnotationExternal = Domain + "/external"

	// ConditionReachable says, on a ServiceExport, whether clusters of other networks can reach the service: ReasonExternalAddresses with
	// True, and ReasonNoExternalAddress, ReasonNotInExternalCIDRs or ReasonHeadless with False. It is absent while all clusters are in one network.
	ConditionReachable       = Domain + "/Reachable"
	ReasonExternalAddresses  = "ExternalAddresses"
	ReasonNoExternalAddress  = "NoExternalAddress"
	ReasonNotInExternalCIDRs = "NotInExternalCIDRs"
	ReasonHeadless           = "Headless"

	// ReasonNameTaken is why a ServiceExport isn't Ready while its cluster exports nothing: another agent, of another cluster or of a clone of this
	// one, holds this cluster's name.
	ReasonNameTaken = "NameTaken"

	// ConditionVisible says, on a ServiceExport, which other clusters can import the service if communities or AnnotationExportTo
	// exclude some: ReasonPeers with True, and with False ReasonNoPeers if AnnotationExportTo excludes all, or ReasonAlone if no other cluster is
	// in a community of this one.
	ConditionVisible = Domain + "/Visible"
	ReasonPeers      = "Peers"
	ReasonNoPeers    = "NoPeers"
	ReasonAlone      = "Alone"

	// ConditionShared is True, with ReasonShare, on a ServiceExport with an AnnotationShare below 100. It is absent otherwise.
	ConditionShared = Domain + "/Shared"
	ReasonShare     = "Share"

	// ConditionImported says, on a ServiceExport, with False and ReasonNamespaceMissing which other clusters don't import the service because
	// they don't have its namespace. It is absent if all have it.
	ConditionImported      = Domain + "/Imported"
	ReasonNamespaceMissing = "NamespaceMissing"

	// ConditionComplete is False while something that somebody wrote isn't used, and its message says what: on a ServiceExport, values, labels and
	// annotations of it and its Service (ReasonNotUsed); on a ServiceImport, parts of the clusters' exports (ReasonLeftOut), also if they can't be written. It is
	// absent otherwise.
	ConditionComplete = Domain + "/Complete"
	ReasonNotUsed     = "NotUsed"
	ReasonLeftOut     = "LeftOut"

	// ConditionEndpoints is False, with ReasonNoEndpoints, on a ServiceImport that has no ready endpoint of any cluster that is used. It is absent
	// otherwise.
	ConditionEndpoints = Domain + "/Endpoints"
	ReasonNoEndpoints  = "NoEndpoints"

	// ConditionConfirmed is False, with ReasonNoRecord, on a ServiceImport of which parts stay although the hub has no record of them. It is absent
	// otherwise.
	ConditionConfirmed = Domain + "/Confirmed"
	ReasonNoRecord     = "NoRecord"

	// AnnotationHubUID holds, on a member's copy of a MemberCluster, the UID of the one on the hub that was copied last.
	AnnotationHubUID = Domain + "/hub-uid"

	// AnnotationConfined, with any value, marks MemberClusterRole while communities decide what members read. The role then doesn't grant
	// reading records, and only the hub process changes its rules.
	AnnotationConfined = Domain + "/confined"

	// LabelWithdrawn, with any value, is on the ExportedServices whose spec says that they are withdrawn, so that the hub process can count the others
	// by their metadata. Nothing else depends on it.
	LabelWithdrawn = Domain + "/withdrawn"

	// AnnotationJoined holds, on a MemberCluster, when the cluster joined the set (RFC 3339). No export counts as older than that. The
	// importer copies it to its mirrors, and `join --rejoin` restores it from there on a hub that lost the MemberCluster.
	AnnotationJoined = Domain + "/joined"

	// AnnotationCredentials holds, on a member's ServiceAccount that the hub process created, the state of its first
	// credentials.
	AnnotationCredentials = Domain + "/credentials"

	// AnnotationExportedLabels and AnnotationExportedAnnotations list, on a ServiceImport, the keys of its exported labels and annotations,
	// separated by commas. With them the importer can remove keys that are no longer exported without touching keys that someone else set.
	AnnotationExportedLabels      = Domain + "/exported-labels"
	AnnotationExportedAnnotations = Domain + "/exported-annotations"

	// AnnotationRecord holds, on an imported EndpointSlice, the name of the ExportedEndpoints that it was made of, in the namespace of its
	// source cluster on the hub.
	AnnotationRecord = Domain + "/record"

	// AnnotationExport holds, on the first EndpointSlice that was imported from a cluster, the spec of the cluster's ExportedService, as JSON.
	// While the hub has lost that, the importer uses this.
	AnnotationExport = Domain + "/export"

	// AnnotationDerivedService holds the derived Service's name, on a ServiceImport. It is the one of the reference implementation (mcs-api,
	// controllers/common.go), by which Cilium's Gateway API finds the Service behind a ServiceImport.
	AnnotationDerivedService = "multicluster.kubernetes.io/derived-service"
)

// FabDNS's keys, which clusterset honours or recognises.
const (
	// KeyGlobalService, as a label (FabDNS) or as an annotation (so that an object whose labels are managed elsewhere can be exported too),
	// exports a Service if its value is "true", and on a Namespace all of its Services. See IsGlobal.
	KeyGlobalService = "fabedge.io/global-service"
)

// Well-known object names.
const (
	// HeartbeatLease is the Lease in a member's namespace on the hub that its agent renews.
	HeartbeatLease = "clusterset-heartbeat"

	// MemberServiceAccount is the ServiceAccount in a member's namespace on the hub whose token its agent holds.
	MemberServiceAccount = "clusterset-member"

	// MemberRole (write in the member's namespace) and MemberClusterRole (read clusterset's API group) are the roles of that account.
	MemberRole        = "clusterset-member"
	MemberClusterRole = "clusterset-member-reader"

	// MemberPeerRole (read the records of a namespace) is the role that PeersBinding, a RoleBinding in each member's namespace on the hub,
	// grants to the members that may read the namespace, if MemberClusters name communities.
	MemberPeerRole = "clusterset-member-peer"
	PeersBinding   = "clusterset-peers"

	// MembersBinding is the ClusterRoleBinding that gives MemberClusterRole to the accounts that the hub process created.
	MembersBinding = "clusterset-members"

	// RecordsQuota is the ResourceQuota in a member's namespace on the hub that limits how many records it has there.
	RecordsQuota = "clusterset-records"

	// NetworksConfigMap in a member's namespace on the hub holds, under NetworksKey and ExternalNetworksKey, the networks that its
	// MemberCluster declares, separated by commas, for the admission policy.
	NetworksConfigMap   = "clusterset-networks"
	NetworksKey         = "cidrs"
	ExternalNetworksKey = "externalCIDRs"

	// HubSecret is the Secret in SystemNamespace of a member that holds its kubeconfig for the hub, under HubSecretKey. If the
	// hub process created the member, the Secret is also in the member's namespace on the hub, until the agent has it.
	HubSecret    = "clusterset-hub-credentials"
	HubSecretKey = "kubeconfig"

	// HubLeaderLease and MemberLeaderLease are the Leases for leader election.
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

	// ExtendingSlicePrefix begins the names of those that extend a cluster's own Services: extending-<cluster>-…
	ExtendingSlicePrefix = "extending-"
)

// MemberFinalizer keeps a deleted MemberCluster on the hub for a while, so that all members see that it says Left. A missing
// MemberCluster means that the hub lost it. The hub process removes the finalizer after a week, `clusterset join` when the name is used
// again.
//
// It is clusterset's only finalizer. Each process makes a full pass at its start, which handles all other deletions that it missed, and a
// finalizer would let an absent agent block the deletion of a user's namespace.
const MemberFinalizer = Domain + "/member"

// MaxMemberName is the longest name a member can have, in bytes: with MemberNamespacePrefix it must be a valid namespace.
const MaxMemberName = 63 - len(MemberNamespacePrefix)

// MemberNamespace returns the namespace on the hub that belongs to the member cluster alone.
func MemberNamespace(cluster string) string { return MemberNamespacePrefix + cluster }

// ClusterOfNamespace returns the member that a namespace on the hub belongs to, and whether it is a member's at all. The namespace
// determines a record's cluster, because RBAC decides who may write there. The payload is only the member's claim.
func ClusterOfNamespace(namespace string) (cluster string, ok bool) {
	cluster, ok = strings.CutPrefix(namespace, MemberNamespacePrefix)
	if !ok || CheckMemberName(cluster) != nil {
		return "", false
	}
	return cluster, true
}

// IsGlobal reports whether the labels or annotations of a Service or Namespace request export by KeyGlobalService. One "true" is enough: if
// a template labels a Service "false" and a user sets the annotation, the user means the annotation.
func IsGlobal(labels, annotations map[string]string) bool {
	return labels[KeyGlobalService] == "true" || annotations[KeyGlobalService] == "true"
}

// KeepsLocal reports whether a Service's labels or annotations exclude it from the export of its namespace: one of them has
// KeyGlobalService, and neither has it with "true". The value should be "false", but a user who writes "False" or "no" doesn't mean "true".
func KeepsLocal(labels, annotations map[string]string) bool {
	_, label := labels[KeyGlobalService]
	_, annotation := annotations[KeyGlobalService]
	return (label || annotation) && !IsGlobal(labels, annotations)
}

// ExportedServiceName returns the name of the ExportedService of a Service: "<service>.<namespace>". Neither part can contain a
// dot, so the name can be split again.
func ExportedServiceName(namespace, service string) string { return service + "." + namespace }

// ParseExportedServiceName splits a name that ExportedServiceName returned. ok is false for any other name.
func ParseExportedServiceName(name string) (namespace, service string, ok bool) {
	service, namespace, ok = strings.Cut(name, ".")
	if !ok || CheckLabel(service) != nil || CheckLabel(namespace) != nil {
		return "", "", false
	}
	return namespace, service, true
}

// ParseExportedEndpointsName splits a name that ExportedEndpointsName returned into the service that the record is about, and what follows it and a
// dot. ok is false for any other name.
func ParseExportedEndpointsName(name string) (namespace, service, suffix string, ok bool) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return "", "", "", false
	}
	namespace, service, ok = ParseExportedServiceName(name[:at])
	return namespace, service, name[at+1:], ok
}

// ExportedEndpointsName returns the name of the ExportedEndpoints that holds the chunk'th (from 0) part of a Service's
// EndpointSlice: "<service>.<namespace>.<hash of the slice's name>-<chunk>". The slice's own name can be too long to
// be part of it.
func ExportedEndpointsName(namespace, service, slice string, chunk int) string {
	return ExportedServiceName(namespace, service) + "." + shortHash(slice) + "-" + strconv.Itoa(chunk)
}

// ExternalOrigin takes the place of a slice's name in the name of the record that holds a Service's external addresses of a family. No
// EndpointSlice is called this: their names have no slash.
func ExternalOrigin(family string) string { return "external/" + family }

// DerivedServiceName returns the name of the derived Service of the ServiceImport namespace/name. It depends on nothing else, so that a
// ServiceImport keeps its ClusterSetIP across restarts.
func DerivedServiceName(namespace, name string) string {
	return DerivedServicePrefix + shortHash(namespace+"/"+name)
}

// UnusedServiceName returns the name that EndpointSlices of the ServiceImport namespace/name have as that of their Service if service proxies
// aren't to use them. There is no such Service. Without a name, CoreDNS's plugin kubernetes makes names of their endpoints that aren't valid,
// and doesn't answer reverse lookups of them.
func UnusedServiceName(namespace, name string) string {
	return DerivedServiceName(namespace, name) + "-unused"
}

// shortHash returns 16 hex digits of s's SHA-256: 64 bits, enough for names within one namespace.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}
