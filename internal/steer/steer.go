// Package steer decides how a cluster's service proxies are told which endpoints ClusterSetIPs lead to, by what runs in the cluster. It asks
// once, when an agent begins to import.
package steer

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Mode is how this cluster's service proxies are told which endpoints ClusterSetIPs lead to (D30).
type Mode string

// The values of Mode. Labels hides slices of endpoints that aren't to be used, for proxies that read no hints. Auto is one of the
// others, by what runs in the cluster.
const (
	Hints  Mode = "hints"
	Labels Mode = "labels"
	Auto   Mode = "auto"
)

// Check returns an error if it is none of the values.
func (m Mode) Check() error {
	switch m {
	case Hints, Labels, Auto:
		return nil
	}
	return fmt.Errorf("unknown value %q: want hints, labels or auto", string(m))
}

// ciliumConfig is the configuration of Cilium, where its documentation installs it.
var ciliumConfig = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cilium-config"}

// ovnChassis is an annotation that OVN-Kubernetes sets on each node where it starts, in all of its modes (SetL3GatewayConfig in
// go-controller/pkg/util/node_annotations.go, v1.3.0). Its API group would say less: CustomResourceDefinitions outlive what installed them.
const ovnChassis = "k8s.ovn.org/node-chassis-id"

// Decide returns the condition Steered. It reads past the cache, once: a service proxy isn't replaced while a cluster works.
func (m Mode) Decide(ctx context.Context, live client.Reader) (metav1.Condition, error) {
	if m != Auto {
		return Steered(m, "as --steer says"), nil
	}
	var cilium corev1.ConfigMap
	hidden, err := unseen(live.Get(ctx, ciliumConfig, &cilium))
	switch {
	case err != nil:
		return metav1.Condition{}, fmt.Errorf("get ConfigMap %s: %w", ciliumConfig, err)
	case cilium.Data["enable-service-topology"] == "true":
		return Steered(Hints, "because Cilium runs, and reads them with enable-service-topology"), nil
	case cilium.Name != "":
		return Steered(Labels, "because Cilium runs, and reads no hints without enable-service-topology"), nil
	}
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	// What balances connections runs on all nodes, so a few are enough.
	hiddenNodes, err := unseen(live.List(ctx, &nodes, client.Limit(100)))
	if err != nil {
		return metav1.Condition{}, fmt.Errorf("list Nodes: %w", err)
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Annotations[ovnChassis] != "" {
			return Steered(Labels, fmt.Sprintf("because OVN-Kubernetes runs, which reads no hints: node %s has %s", n.Name, ovnChassis)), nil
		}
	}
	return Steered(Hints, "because neither Cilium nor OVN-Kubernetes was found"+hidden+hiddenNodes), nil
}

// unseen takes an object that doesn't exist, or that the agent may not read, for absent. Of the latter it returns words.
func unseen(err error) (words string, _ error) {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("; the agent may not look: %v", err), nil
	}
	return "", client.IgnoreNotFound(err)
}

// Steered returns the condition Steered.
func Steered(by Mode, why string) metav1.Condition {
	reason := map[Mode]string{Hints: clustersetv1alpha1.ReasonHints, Labels: clustersetv1alpha1.ReasonLabels}[by]
	return metav1.Condition{Type: clustersetv1alpha1.ConditionSteered, Status: metav1.ConditionTrue, Reason: reason, Message: fmt.Sprintf("by %s, %s", by, why)}
}

// Distribution returns the trafficDistribution of derived Services. An API server that doesn't know the field would drop it, and each reconcile
// would write it again. One that knows its newer name warns of the other, which means the same.
func Distribution(config *rest.Config, over *http.Client) (*string, error) {
	c, err := discovery.NewDiscoveryClientForConfigAndClient(config, over)
	if err != nil {
		return nil, fmt.Errorf("ask for the API server's version: %w", err)
	}
	info, err := c.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the API server's version: %w", err)
	}
	is, err := version.ParseGeneric(info.GitVersion)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse the API server's version: %w", err)
	case is.AtLeast(version.MustParseGeneric("1.35.0")):
		return ptr.To(corev1.ServiceTrafficDistributionPreferSameZone), nil
	case is.AtLeast(version.MustParseGeneric("1.31.0")):
		return ptr.To(corev1.ServiceTrafficDistributionPreferClose), nil
	}
	return nil, nil
}
