package chart

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/kube"
)

// theirs is what others have in the agent's cluster, and what the agent has.
const theirs = `
apiVersion: v1
kind: Namespace
metadata: {name: confined}
---
apiVersion: v1
kind: Namespace
metadata: {name: opened, labels: {clusterset.dev/extend: allowed}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {clusterset.dev/extend: allowed}}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, labels: {clusterset.dev/extend: allowed, pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: confined, name: extending-ours, labels: {clusterset.dev/managed-by: importer, clusterset.dev/extends: theirs, kubernetes.io/service-name: theirs}}
addressType: IPv4
endpoints: []
---
apiVersion: v1
kind: Service
metadata: {namespace: confined, name: theirs, annotations: {example.com/theirs: x}}
spec: {ports: [{port: 80}], selector: {app: theirs}}
---
apiVersion: v1
kind: Service
metadata: {namespace: confined, name: derived-theirs}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: confined, name: derived-ours, labels: {clusterset.dev/managed-by: importer}, annotations: {example.com/theirs: x}}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: confined, name: derived-edited, labels: {clusterset.dev/managed-by: importer}}
spec: {ports: [{port: 80}], externalIPs: [192.0.2.1]}
---
apiVersion: v1
kind: Service
metadata: {namespace: confined, name: named-ours, labels: {clusterset.dev/managed-by: importer}}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: confined, name: theirs, labels: {kubernetes.io/service-name: theirs}}
addressType: IPv4
endpoints: []
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: confined, name: imported-ours, labels: {clusterset.dev/managed-by: importer, kubernetes.io/service-name: derived-ours}}
addressType: IPv4
endpoints: []
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {namespace: confined, name: theirs}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {namespace: confined, name: ours, labels: {clusterset.dev/managed-by: exporter}}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: confined, name: theirs}
spec: {type: ClusterSetIP, ports: [{port: 80}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: confined, name: ours, labels: {clusterset.dev/managed-by: importer}}
spec: {type: ClusterSetIP, ports: [{port: 80}]}
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {namespace: confined, name: theirs}
spec: {type: ClusterIP, ports: [{port: 80}]}
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {namespace: confined, name: ours, labels: {clusterset.dev/managed-by: importer}}
spec: {type: ClusterIP, ports: [{port: 80}]}
---
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: theirs, labels: {clusterset.dev/managed-by: join}}
---
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: ours, labels: {clusterset.dev/managed-by: importer}}
---
apiVersion: clusterset.dev/v1alpha1
kind: Reachability
metadata: {name: local, labels: {clusterset.dev/managed-by: importer}}
cluster: lyon
stamp: "2026-01-01T00:00:00Z"
---
apiVersion: about.k8s.io/v1beta1
kind: ClusterProperty
metadata: {name: cluster.clusterset.k8s.io, labels: {clusterset.dev/managed-by: join}}
spec: {value: lyon}
---
apiVersion: v1
kind: Secret
metadata: {namespace: clusterset-system, name: clusterset-hub-credentials}
---
apiVersion: v1
kind: Secret
metadata: {namespace: clusterset-system, name: theirs}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {namespace: clusterset-system, name: clusterset-member-leader}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {namespace: clusterset-system, name: theirs}
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {namespace: confined, name: theirs}
eventTime: 2026-01-01T00:00:00.000000Z
reportingController: theirs
reportingInstance: a
action: A
reason: R
regarding: {kind: Service, namespace: confined, name: theirs}
type: Normal
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {namespace: confined, name: ours}
eventTime: 2026-01-01T00:00:00.000000Z
reportingController: clusterset-importer
reportingInstance: a
action: A
reason: R
regarding: {kind: Service, namespace: confined, name: theirs}
type: Normal
---
apiVersion: v1
kind: Event
metadata: {namespace: clusterset-system, name: leads}
involvedObject: {kind: Lease, namespace: clusterset-system, name: clusterset-member-leader}
reason: LeaderElection
message: became leader
`

// kinds of what an agent's account can write, by their resources.
var writable = map[string]schema.GroupVersionKind{
	"services":          {Version: "v1", Kind: "Service"},
	"namespaces":        {Version: "v1", Kind: "Namespace"},
	"secrets":           {Version: "v1", Kind: "Secret"},
	"events":            {Version: "v1", Kind: "Event"}, // of the core group
	"events.k8s.io":     {Group: "events.k8s.io", Version: "v1", Kind: "Event"},
	"leases":            {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	"endpointslices":    {Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"},
	"serviceexports":    {Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"},
	"serviceimports":    {Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceImport"},
	"globalservices":    {Group: "dns.fabedge.io", Version: "v1alpha1", Kind: "GlobalService"},
	"memberclusters":    {Group: "clusterset.dev", Version: "v1alpha1", Kind: "MemberCluster"},
	"reachabilities":    {Group: "clusterset.dev", Version: "v1alpha1", Kind: "Reachability"},
	"clusterproperties": {Group: "about.k8s.io", Version: "v1beta1", Kind: "ClusterProperty"},
}

// Refusals, by the policies and by the roles.
const (
	unlabelled = "writes only what carries its label clusterset.dev/managed-by"
	named      = "no Services but those whose names begin with derived-"
	plain      = "the type ClusterIP, no selector, no externalIPs and no load balancer"
	leads      = "leads to no Service (kubernetes.io/service-name) but those whose names begin with derived-"
	keys       = "sets no labels and annotations but its own"
	finalizers = "sets no finalizers"
	words      = "writes no Events but its own"
	short      = "at most 1024 characters, and no labels and annotations"
	role       = " cannot "
)

// The labels of what the agent writes, as flow mappings without braces.
const (
	ours  = "clusterset.dev/managed-by: importer"
	marks = "clusterset.dev/managed-by: exporter"
	joins = "clusterset.dev/managed-by: join"
)

// write is an attempt to write. object is what is created, or merged into the object that exists.
type write struct{ what, verb, resource, object, says string }

func derived(name, more string) string {
	return "{metadata: {namespace: confined, name: " + name + ", labels: {" + ours + "}}, spec: {ports: [{port: 80}]" + more + "}}"
}

func slice(labels, more string) string {
	return "{metadata: {namespace: confined, name: imported-new, labels: {" + labels + "}" + more + "}, addressType: IPv4, endpoints: [{addresses: [10.2.0.1]}]}"
}

// extending is a slice that leads clients of a Service to other clusters.
func extending(namespace, service string) string {
	return strings.Replace(slice(ours+", clusterset.dev/extends: "+service+", kubernetes.io/service-name: "+service, ""), "confined", namespace, 1)
}

func reachability(name, more string) string {
	return "{metadata: {name: " + name + ", " + more + "}, cluster: lyon, stamp: '2026-01-01T00:00:00Z'}"
}

func event(more string) string {
	return "{metadata: {namespace: confined, name: new}, eventTime: '2026-01-01T00:00:00.000000Z', reportingInstance: a, action: A, reason: R, type: Normal, regarding: {kind: Service, namespace: confined, name: theirs}, " + more + "}"
}

// writes tries each verb on each kind that the agent's role allows: what the agent does, which must be admitted (no refusal), and what a
// thief of its account would do.
var writes = []write{
	{"as the importer", "create", "services", "{metadata: {namespace: confined, name: derived-new, labels: {" + ours + ", multicluster.kubernetes.io/service-name: web}, annotations: {service.kubernetes.io/topology-mode: Auto}}, spec: {ports: [{port: 80}]}}", ""},
	{"without the label", "create", "services", "{metadata: {namespace: confined, name: derived-new}, spec: {ports: [{port: 80}]}}", unlabelled},
	{"with the exporter's label", "create", "services", "{metadata: {namespace: confined, name: derived-new, labels: {" + marks + "}}, spec: {ports: [{port: 80}]}}", unlabelled},
	{"under a name that pods ask for", "create", "services", derived("postgres", ""), named},
	{"with another's external address", "create", "services", derived("derived-new", ", externalIPs: [8.8.8.8]"), plain},
	{"that selects others' pods", "create", "services", derived("derived-new", ", selector: {app: theirs}"), plain},
	{"that is reached from outside", "create", "services", derived("derived-new", ", type: LoadBalancer"), plain},
	{"at a port of each node", "create", "services", derived("derived-new", ", type: NodePort"), plain},
	{"that is another name", "create", "services", derived("derived-new", ", type: ExternalName, externalName: example.org"), plain},
	{"with another name besides", "create", "services", derived("derived-new", ", externalName: example.org"), plain},
	{"with the address of a load balancer", "create", "services", derived("derived-new", ", loadBalancerIP: 8.8.8.8"), plain},
	{"in a public zone", "create", "services", strings.Replace(derived("derived-new", ""), "labels:", "annotations: {external-dns.alpha.kubernetes.io/hostname: www.example.org}, labels:", 1), keys},
	byWebhook,
	{"with what a webhook may not add", "create", "services", strings.Replace(derived("derived-new", ""), "labels:", "annotations: {cloud.google.com/negs: x}, labels:", 1), "and not cloud.google.com/negs; if an admission webhook adds it here"},
	{"as part of a gateway", "create", "services", strings.Replace(derived("derived-new", ""), ours, ours+", gateway.networking.k8s.io/gateway-name: x", 1), keys},
	{"that can't be deleted", "create", "services", strings.Replace(derived("derived-new", ""), "labels:", "finalizers: [example.com/stay], labels:", 1), finalizers},
	{"as the importer", "update", "services", "{metadata: {namespace: confined, name: derived-ours}, spec: {ports: [{port: 81}]}}", ""},
	{"without what somebody added", "update", "services", "{metadata: {namespace: confined, name: derived-edited}, spec: {externalIPs: null, externalTrafficPolicy: null}}", ""},
	{"another's", "update", "services", "{metadata: {namespace: confined, name: theirs}, spec: {selector: {app: mine}}}", unlabelled},
	{"another's, by labelling it", "update", "services", "{metadata: {namespace: confined, name: derived-theirs, labels: {" + ours + "}}}", unlabelled},
	{"without the label", "update", "services", "{metadata: {namespace: confined, name: derived-ours, labels: {clusterset.dev/managed-by: null}}}", unlabelled},
	{"with another's external address", "update", "services", "{metadata: {namespace: confined, name: derived-ours}, spec: {externalIPs: [8.8.8.8]}}", plain},
	{"that selects others' pods", "update", "services", "{metadata: {namespace: confined, name: derived-ours}, spec: {selector: {app: theirs}}}", plain},
	{"that is reached from outside", "update", "services", "{metadata: {namespace: confined, name: derived-ours}, spec: {type: LoadBalancer}}", plain},
	{"in a public zone", "update", "services", "{metadata: {namespace: confined, name: derived-ours, annotations: {external-dns.alpha.kubernetes.io/hostname: www.example.org}}}", keys},
	{"with what another said changed", "update", "services", "{metadata: {namespace: confined, name: derived-ours, annotations: {example.com/theirs: changed}}}", keys},
	{"that can't be deleted", "update", "services", "{metadata: {namespace: confined, name: derived-ours, finalizers: [example.com/stay]}}", finalizers},
	{"as the importer", "delete", "services", "{metadata: {namespace: confined, name: derived-ours}}", ""},
	{"another's", "delete", "services", "{metadata: {namespace: confined, name: theirs}}", unlabelled},
	{"that of the API server", "delete", "services", "{metadata: {namespace: default, name: kubernetes}}", unlabelled},
	{"one whose name pods ask for", "delete", "services", "{metadata: {namespace: confined, name: named-ours}}", named},

	{"as the importer", "create", "endpointslices", slice(ours+", kubernetes.io/service-name: derived-ours, endpointslice.kubernetes.io/managed-by: endpointslice-importer.clusterset.dev, multicluster.kubernetes.io/service-name: web, multicluster.kubernetes.io/source-cluster: lyon", ", annotations: {endpoints.kubernetes.io/last-change-trigger-time: '2026-01-01T00:00:00Z'}"), ""},
	{"for DNS alone", "create", "endpointslices", slice(ours+", service.kubernetes.io/headless: '', kubernetes.io/service-name: derived-ours-unused", ""), ""},
	{"without the label", "create", "endpointslices", slice("kubernetes.io/service-name: derived-ours", ""), unlabelled},
	{"of another's Service", "create", "endpointslices", slice(ours+", kubernetes.io/service-name: theirs", ""), leads},
	{"of another's Service, in a namespace that is open for it", "create", "endpointslices", extending("opened", "theirs"), ""},
	{"of another's Service, in the open namespace default", "create", "endpointslices", extending("default", "theirs"), ""},
	{"of the API server, in a namespace that is open", "create", "endpointslices", extending("default", "kubernetes"), leads},
	{"of the cluster's DNS, in a namespace that is open", "create", "endpointslices", extending("kube-system", "kube-dns"), leads},
	{"of a Service without a name there", "create", "endpointslices", strings.Replace(slice(ours+", kubernetes.io/service-name: ''", ""), "confined", "opened", 1), leads},
	{"of another's Service, written while its namespace was open", "update", "endpointslices", "{metadata: {namespace: confined, name: extending-ours}, endpoints: [{addresses: [10.2.0.2]}]}", leads},
	{"of another's Service, written while its namespace was open", "delete", "endpointslices", "{metadata: {namespace: confined, name: extending-ours}}", ""},
	{"of a Service without a name", "create", "endpointslices", slice(ours+", kubernetes.io/service-name: ''", ""), leads},
	{"with a label of another controller's", "create", "endpointslices", slice(ours+", example.com/pool: blue", ""), keys},
	{"that can't be deleted", "create", "endpointslices", slice(ours, ", finalizers: [example.com/stay]"), finalizers},
	{"as the importer", "update", "endpointslices", "{metadata: {namespace: confined, name: imported-ours}, endpoints: [{addresses: [10.2.0.2]}]}", ""},
	{"of another's Service", "update", "endpointslices", "{metadata: {namespace: confined, name: imported-ours, labels: {kubernetes.io/service-name: theirs}}}", leads},
	{"another's", "update", "endpointslices", "{metadata: {namespace: confined, name: theirs}, endpoints: [{addresses: [10.2.0.2]}]}", unlabelled},
	{"another's, by labelling it", "update", "endpointslices", "{metadata: {namespace: confined, name: theirs, labels: {" + ours + "}}}", unlabelled},
	{"as the importer", "delete", "endpointslices", "{metadata: {namespace: confined, name: imported-ours}}", ""},
	{"another's", "delete", "endpointslices", "{metadata: {namespace: confined, name: theirs}}", unlabelled},

	{"as the exporter", "create", "serviceexports", "{metadata: {namespace: confined, name: new, labels: {" + marks + "}}}", ""},
	{"as a user", "create", "serviceexports", "{metadata: {namespace: confined, name: new}}", unlabelled},
	{"that can't be deleted", "create", "serviceexports", "{metadata: {namespace: confined, name: new, labels: {" + marks + "}, finalizers: [example.com/stay]}}", finalizers},
	{"as the exporter", "delete", "serviceexports", "{metadata: {namespace: confined, name: ours}}", ""},
	{"another's", "delete", "serviceexports", "{metadata: {namespace: confined, name: theirs}}", unlabelled},
	{"a user's, as the exporter", "patch", "serviceexports/status", "{metadata: {namespace: confined, name: theirs}, status: {conditions: []}}", ""},

	{"as the importer", "create", "serviceimports", "{metadata: {namespace: confined, name: new, labels: {" + ours + ", example.com/exported: x}}, spec: {type: ClusterSetIP, ports: [{port: 80}]}}", ""},
	{"as a user", "create", "serviceimports", "{metadata: {namespace: confined, name: new}, spec: {type: ClusterSetIP, ports: [{port: 80}]}}", unlabelled},
	{"as the importer", "update", "serviceimports", "{metadata: {namespace: confined, name: ours}, spec: {sessionAffinity: ClientIP}}", ""},
	{"another's", "update", "serviceimports", "{metadata: {namespace: confined, name: theirs, labels: {" + ours + "}}}", unlabelled},
	{"as the importer", "delete", "serviceimports", "{metadata: {namespace: confined, name: ours}}", ""},
	{"another's", "delete", "serviceimports", "{metadata: {namespace: confined, name: theirs}}", unlabelled},
	{"as the importer", "update", "serviceimports/status", "{metadata: {namespace: confined, name: ours}, status: {clusters: [{cluster: lyon}]}}", ""},
	{"another's", "update", "serviceimports/status", "{metadata: {namespace: confined, name: theirs}, status: {clusters: [{cluster: lyon}]}}", unlabelled},

	{"as the importer", "create", "globalservices", "{metadata: {namespace: confined, name: new, labels: {" + ours + "}}, spec: {type: ClusterIP, ports: [{port: 80}]}}", ""},
	{"as a user", "create", "globalservices", "{metadata: {namespace: confined, name: new}, spec: {type: ClusterIP, ports: [{port: 80}]}}", unlabelled},
	{"as the importer", "update", "globalservices", "{metadata: {namespace: confined, name: ours}, spec: {ports: [{port: 81}]}}", ""},
	{"another's", "update", "globalservices", "{metadata: {namespace: confined, name: theirs, labels: {" + ours + "}}}", unlabelled},
	{"as the importer", "delete", "globalservices", "{metadata: {namespace: confined, name: ours}}", ""},
	{"another's", "delete", "globalservices", "{metadata: {namespace: confined, name: theirs}}", unlabelled},
	{"as the importer", "update", "globalservices/status", "{metadata: {namespace: confined, name: ours}, status: {}}", ""},
	{"another's", "update", "globalservices/status", "{metadata: {namespace: confined, name: theirs}, status: {}}", unlabelled},

	{"as the importer", "create", "memberclusters", "{metadata: {name: new, labels: {" + ours + "}}}", ""},
	{"as a hub", "create", "memberclusters", "{metadata: {name: new, labels: {" + joins + "}}}", unlabelled},
	{"as the importer", "update", "memberclusters", "{metadata: {name: ours}, spec: {zone: a}}", ""},
	{"a hub's", "update", "memberclusters", "{metadata: {name: theirs}, spec: {cidrs: []}}", unlabelled},
	{"as the importer", "delete", "memberclusters", "{metadata: {name: ours}}", ""},
	{"a hub's", "delete", "memberclusters", "{metadata: {name: theirs}}", unlabelled},
	{"as the importer", "update", "memberclusters/status", "{metadata: {name: ours}, status: {phase: Suspect}}", ""},
	{"a hub's", "update", "memberclusters/status", "{metadata: {name: theirs}, status: {phase: Expired}}", unlabelled},

	// Storage refuses this one, after all policies have admitted it.
	{"as the prober", "create", "reachabilities", reachability("local", "labels: {"+ours+"}"), "already exists"},
	{"without the label", "create", "reachabilities", reachability("local", "labels: {}"), unlabelled},
	{"that can't be deleted", "create", "reachabilities", reachability("local", "labels: {"+ours+"}, finalizers: [example.com/stay]"), finalizers},
	{"of another name", "create", "reachabilities", reachability("other", "labels: {"+ours+"}"), "the only Reachability of a cluster is called local"},
	{"as the prober", "update", "reachabilities", "{metadata: {name: local}, stamp: '2026-01-01T00:01:00Z'}", ""},
	{"without the label", "update", "reachabilities", "{metadata: {name: local, labels: {clusterset.dev/managed-by: null}}}", unlabelled},
	{"that can't be deleted", "update", "reachabilities", "{metadata: {name: local, finalizers: [example.com/stay]}}", finalizers},

	{"as the importer", "create", "namespaces", "{metadata: {name: confined-new, labels: {" + ours + "}}}", ""},
	{"without the label", "create", "namespaces", "{metadata: {name: confined-new}}", unlabelled},
	{"with rights for pods", "create", "namespaces", "{metadata: {name: confined-new, labels: {" + ours + ", pod-security.kubernetes.io/enforce: privileged}}}", keys},
	{"of the cluster's own", "create", "namespaces", "{metadata: {name: kube-new, labels: {" + ours + "}}}", "creates no namespaces kube-"},
	{"of a member's on a hub", "create", "namespaces", "{metadata: {name: clusterset-member-new, labels: {" + ours + "}}}", "creates no namespaces kube-"},
	{"open for itself", "create", "namespaces", "{metadata: {name: confined-new, labels: {" + ours + ", clusterset.dev/extend: allowed}}}", "opens no namespace"},

	{"as the agent", "update", "clusterproperties", "{metadata: {name: cluster.clusterset.k8s.io}, spec: {value: turin}}", ""},
	{"not ours any more", "update", "clusterproperties", "{metadata: {name: cluster.clusterset.k8s.io, labels: {clusterset.dev/managed-by: null}}}", unlabelled},
	{"of any length", "update", "clusterproperties", "{metadata: {name: cluster.clusterset.k8s.io}, spec: {value: " + strings.Repeat("x", 100) + "}}", "no ClusterProperty but the cluster's name"},
	{"another", "create", "clusterproperties", "{metadata: {name: storage, labels: {" + joins + "}}, spec: {value: x}}", "no ClusterProperty but the cluster's name"},

	{"as the importer", "create", "events.k8s.io", event("reportingController: clusterset-importer"), ""},
	{"as the exporter", "create", "events.k8s.io", event("reportingController: clusterset-exporter"), ""},
	{"as another", "create", "events.k8s.io", event("reportingController: kubelet"), words},
	{"with an annotation", "create", "events.k8s.io", strings.Replace(event("reportingController: clusterset-importer"), "name: new", "name: new, annotations: {x: an-annotation}", 1), short},
	{"as the importer", "patch", "events.k8s.io", "{metadata: {namespace: confined, name: ours}, series: {count: 2, lastObservedTime: '2026-01-01T00:00:01.000000Z'}}", ""},
	{"another's", "patch", "events.k8s.io", "{metadata: {namespace: confined, name: theirs}, series: {count: 2, lastObservedTime: '2026-01-01T00:00:01.000000Z'}}", words},
	{"who leads", "create", "events", "{metadata: {namespace: clusterset-system, name: new}, involvedObject: {kind: Lease, namespace: clusterset-system, name: clusterset-member-leader}, reason: LeaderElection, message: became leader}", ""},
	{"a long one", "create", "events", "{metadata: {namespace: clusterset-system, name: new}, involvedObject: {kind: Lease, namespace: clusterset-system, name: clusterset-member-leader}, reason: LeaderElection, message: " + strings.Repeat("x", 2000) + "}", short},
	{"elsewhere", "create", "events", "{metadata: {namespace: confined, name: new}, involvedObject: {kind: Service, namespace: confined, name: theirs}, reason: R, message: m}", role},
	{"who leads", "patch", "events", "{metadata: {namespace: clusterset-system, name: leads}, count: 2}", ""},
	{"a long one", "patch", "events", "{metadata: {namespace: clusterset-system, name: leads}, message: " + strings.Repeat("x", 2000) + "}", short},

	{"another", "create", "leases", "{metadata: {namespace: clusterset-system, name: storage}}", "no Lease but clusterset-member-leader"},
	{"elsewhere", "create", "leases", "{metadata: {namespace: confined, name: clusterset-member-leader}}", role},
	{"as the leader", "update", "leases", "{metadata: {namespace: clusterset-system, name: clusterset-member-leader}, spec: {holderIdentity: a}}", ""},
	{"of any length", "update", "leases", "{metadata: {namespace: clusterset-system, name: clusterset-member-leader}, spec: {holderIdentity: " + strings.Repeat("x", 2000) + "}}", "no Lease but clusterset-member-leader"},
	{"another's", "update", "leases", "{metadata: {namespace: clusterset-system, name: theirs}, spec: {holderIdentity: a}}", role},

	{"its own", "patch", "secrets", "{metadata: {namespace: clusterset-system, name: clusterset-hub-credentials}, stringData: {kubeconfig: x}}", ""},
	{"another's", "patch", "secrets", "{metadata: {namespace: clusterset-system, name: theirs}, stringData: {kubeconfig: x}}", role},
}

// byWebhook is admitted because of a value of the chart.
var byWebhook = write{"with what a webhook may add", "create", "services", strings.Replace(derived("derived-new", ""), "labels:", "annotations: {cloud.google.com/neg: x}, labels:", 1), ""}

// confinesAgents makes every write that the role of the agent's account allows. Rule C56 of docs/spec/control-plane.md.
func (c *cluster) confinesAgents(t *testing.T) {
	const values = "{member: {createNamespaces: true, admissionPolicy: {allowedKeys: [cloud.google.com/neg]}}}"
	agent, admin := c.confined(t, values)
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests)
	c.Apply(t, []byte(propertyCRD))
	c.Apply(t, []byte(theirs))
	kube.Eventually(t, func() error { // policies take effect a moment after they are written; there may have been others before
		for _, w := range []write{
			{"", "create", "services", derived("postgres", ""), named},
			{"", "create", "leases", "{metadata: {namespace: clusterset-system, name: storage}}", "no Lease but"},
			byWebhook,
		} {
			if err := w.wrong(w.try(t.Context(), agent, admin)); err != nil {
				return err
			}
		}
		return nil
	})
	tried := map[string]bool{}
	for _, w := range writes {
		tried[w.verb+" "+w.resource] = true
		if err := w.wrong(w.try(t.Context(), agent, admin)); err != nil {
			t.Error(err)
		}
	}
	for _, right := range writesOf(t, all) {
		if !tried[right] {
			t.Errorf("the agent may %s, which wasn't tried", right)
		}
	}
}

// confined installs the agent's account and what confines it, and returns clients with its rights and with all.
func (c *cluster) confined(t *testing.T, values string) (agent, admin dynamic.Interface) {
	t.Helper()
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests)
	c.Apply(t, encode(t, only(all, append(rbacKinds, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")...))...)
	user, groups := identity(deployment(t, all, "member"))
	kubeconfig, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	agent, err = dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	admin, err = dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return agent, admin
}

// extendsEverywhere is what the chart admits with member.extendEverywhere. Rule D62 of docs/spec/data-path.md.
func (c *cluster) extendsEverywhere(t *testing.T) {
	agent, admin := c.confined(t, "{member: {createNamespaces: true, extendEverywhere: true}}")
	tries := []write{
		{"of another's Service, in a namespace without the label", "create", "endpointslices", extending("confined", "theirs"), ""},
		{"of the API server", "create", "endpointslices", extending("default", "kubernetes"), leads},
		{"of the cluster's DNS", "create", "endpointslices", extending("kube-system", "kube-dns"), leads},
		{"of a Service without a name", "create", "endpointslices", slice(ours+", kubernetes.io/service-name: ''", ""), leads},
		{"another's", "update", "endpointslices", "{metadata: {namespace: confined, name: theirs}, endpoints: [{addresses: [10.2.0.2]}]}", unlabelled},
	}
	kube.Eventually(t, func() error { return tries[0].wrong(tries[0].try(t.Context(), agent, admin)) }) // it takes effect a moment later
	for _, w := range tries {
		if err := w.wrong(w.try(t.Context(), agent, admin)); err != nil {
			t.Error(err)
		}
	}
	c.confined(t, "{member: {createNamespaces: true}}")
}

// wrong returns an error if the write didn't end as it says.
func (w write) wrong(err error) error {
	if w.says == "" && err != nil || w.says != "" && (err == nil || !strings.Contains(err.Error(), w.says)) {
		return fmt.Errorf("%s %s, %s: %v, want %q", w.verb, w.resource, w.what, err, w.says) //nolint:errorlint // it isn't this one's cause
	}
	return nil
}

// writesOf returns what the agent's roles allow besides reading, as "verb resource".
func writesOf(t *testing.T, all []*unstructured.Unstructured) (rights []string) {
	t.Helper()
	for _, o := range only(all, "ClusterRole", "Role") {
		if o.GetLabels()["app.kubernetes.io/component"] != "member" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if rule.APIGroups[0] == "events.k8s.io" {
					resource = "events.k8s.io"
				}
				for _, verb := range rule.Verbs {
					// OpenShift asks for endpointslices/restricted besides the right to write the slice.
					if !slices.Contains([]string{"get", "list", "watch"}, verb) && resource != "endpointslices/restricted" {
						rights = append(rights, verb+" "+resource)
					}
				}
			}
		}
	}
	if len(rights) == 0 {
		t.Fatal("the agent may write nothing")
	}
	return rights
}

// try makes the write, which only the API server's storage doesn't see (dry-run).
func (w write) try(ctx context.Context, as, admin dynamic.Interface) error {
	name, sub, _ := strings.Cut(w.resource, "/")
	kind := writable[name]
	change := map[string]any{}
	if err := yaml.Unmarshal([]byte(w.object), &change); err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: change}
	gvr, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Kind == "ClusterProperty" {
		gvr.Resource = "clusterproperties"
	}
	at := func(by dynamic.Interface) dynamic.ResourceInterface {
		if o.GetNamespace() == "" {
			return by.Resource(gvr)
		}
		return by.Resource(gvr).Namespace(o.GetNamespace())
	}
	subresource := slices.DeleteFunc([]string{sub}, func(s string) bool { return s == "" })
	dry := []string{metav1.DryRunAll}
	var err error
	switch w.verb {
	case "create":
		o.SetGroupVersionKind(kind)
		_, err = at(as).Create(ctx, o, metav1.CreateOptions{DryRun: dry})
	case "update":
		live, getErr := at(admin).Get(ctx, o.GetName(), metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("read it: %w", getErr)
		}
		merge(live.Object, change)
		_, err = at(as).Update(ctx, live, metav1.UpdateOptions{DryRun: dry}, subresource...)
	case "patch":
		patch, jsonErr := yaml.YAMLToJSON([]byte(w.object))
		if jsonErr != nil {
			return jsonErr
		}
		_, err = at(as).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dry}, subresource...)
	case "delete":
		err = at(as).Delete(ctx, o.GetName(), metav1.DeleteOptions{DryRun: dry})
	}
	return err
}

// merge applies a JSON merge patch.
func merge(to, patch map[string]any) {
	for key, value := range patch {
		inner, ok := value.(map[string]any)
		has, had := to[key].(map[string]any)
		switch {
		case value == nil:
			delete(to, key)
		case ok && had:
			merge(has, inner)
		default:
			to[key] = value
		}
	}
}

// propertyCRD is the CRD of about.k8s.io (KEP-2149), reduced to the form of a ClusterProperty.
const propertyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: https://github.com/kubernetes/enhancements/pull/2149}
spec:
  group: about.k8s.io
  names: {kind: ClusterProperty, plural: clusterproperties, singular: clusterproperty, listKind: ClusterPropertyList}
  scope: Cluster
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {value: {type: string}}}}}}
`
