package connectivity

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// notThere is why a pod isn't ready that doesn't exist.
const notThere = "the pod isn't there"

func (c *Cluster) look(ctx context.Context, namespace string) (*Facts, error) {
	f := &Facts{
		Cluster: c.Name, Context: c.Context, Exports: map[string]Export{}, Imports: map[string]Import{},
		Routed: map[string]bool{}, Reached: map[string]bool{},
	}
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
		f.Gone = true
		return f, nil
	} else if err != nil {
		return nil, c.Words(err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, c.Words(err)
	}
	f.Server, f.Client = podOf(pods.Items, server), podOf(pods.Items, clientPod)
	exports, err := c.ServiceExports(ctx, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	for i := range exports {
		f.Exports[exports[i].Name] = exportOf(&exports[i])
	}
	imports, err := c.ServiceImports(ctx, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	for i := range imports {
		f.Imports[imports[i].Name] = importOf(&imports[i])
	}
	f.behind(ctx, c, namespace)
	reach, err := c.Reachability(ctx)
	if err != nil {
		return nil, err
	}
	if reach != nil {
		for _, to := range reach.Clusters {
			f.Reached[to.Name] = to.Reachable == metav1.ConditionTrue
		}
	}
	return f, nil
}

// podOf returns a pod's state, and why it isn't ready: what its container waits for, or why it isn't scheduled.
func podOf(pods []corev1.Pod, name string) Pod {
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	if at < 0 {
		return Pod{Why: notThere}
	}
	status := &pods[at].Status
	p := Pod{Done: status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed, Why: strings.TrimSpace(status.Reason + " " + status.Message)}
	for _, ip := range status.PodIPs {
		p.Addresses = append(p.Addresses, ip.IP)
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			p.Ready = c.Status == corev1.ConditionTrue
		}
		if c.Status != corev1.ConditionTrue && c.Message != "" && p.Why == "" {
			p.Why = c.Message
		}
	}
	for _, c := range status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			p.Why = strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	if len(status.Conditions) == 0 && p.Why == "" {
		p.Why = "no scheduler or kubelet has taken the pod"
	}
	return p
}

func exportOf(e *mcsv1beta1.ServiceExport) Export {
	state := Export{Seen: len(e.Status.Conditions) > 0}
	for _, kind := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionReady, mcsv1beta1.ServiceExportConditionValid} {
		c := meta.FindStatusCondition(e.Status.Conditions, string(kind))
		if c == nil {
			continue
		}
		if kind == mcsv1beta1.ServiceExportConditionReady {
			state.Ready = c.Status == metav1.ConditionTrue
		}
		if c.Status != metav1.ConditionTrue {
			state.Message = c.Message // that it isn't valid says more
		}
	}
	return state
}

func importOf(i *mcsv1beta1.ServiceImport) Import {
	state := Import{There: true, IPs: i.Spec.IPs}
	if c := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); c != nil {
		state.Ready, state.Message = c.Status == metav1.ConditionTrue, c.Message
	}
	state.Unaddressed = state.Ready && i.Spec.Type == mcsv1beta1.ClusterSetIP && len(i.Spec.IPs) == 0
	return state
}

// behind finds out what is behind ClusterSetIPs. With pods, a cluster's Service and its headless one lead to the same address. A failure leaves it
// open, and then pods are asked.
func (f *Facts) behind(ctx context.Context, c *Cluster, namespace string) {
	var all discoveryv1.EndpointSliceList
	if c.List(ctx, &all, client.InNamespace(namespace)) != nil {
		return
	}
	f.Endpoints = map[string]string{}
	for i := range all.Items {
		s := &all.Items[i]
		if s.Labels[api.LabelSourceCluster] != "" && len(s.Endpoints) > 0 && len(s.Endpoints[0].Addresses) > 0 {
			f.Endpoints[s.Labels[api.LabelServiceName]+" "+string(s.AddressType)] = s.Endpoints[0].Addresses[0]
		}
	}
	for i := range all.Items {
		of, family := all.Items[i].Labels[api.LabelSourceCluster], string(all.Items[i].AddressType)
		service, headless := f.Endpoints[serviceOf(of)+" "+family], f.Endpoints[headlessOf(of)+" "+family]
		if of != f.Cluster && service != "" && headless != "" && service != headless {
			f.Routed[of] = true
		}
	}
}

// Facts are what was seen in one cluster.
type Facts struct {
	// Cluster is its name in the set, Context the kubeconfig's name for it.
	Cluster, Context string
	Gone             bool
	Server, Client   Pod
	// Exports are the cluster's own, Imports those of all clusters, by name.
	Exports map[string]Export
	Imports map[string]Import
	// Routed has the clusters whose ClusterIPs, instead of pods, are behind this cluster's ClusterSetIPs.
	Routed map[string]bool
	// Endpoints has an address behind each imported service, by "name family", nil if that couldn't be read.
	Endpoints map[string]string
	// Reached has the clusters that this cluster's agent reaches.
	Reached map[string]bool
	// Answers are the client's, nil if there are none.
	Answers []Answer
}

// Pod is a pod of the test.
type Pod struct {
	Ready     bool
	Done      bool
	Why       string
	Addresses []string
}

// Export is the state of a ServiceExport.
type Export struct {
	// Seen is set once an agent has worked on it, Ready once the hub has it.
	Seen, Ready bool
	Message     string
}

// Import is the state of a ServiceImport.
type Import struct {
	There, Ready bool
	Message      string
	IPs          []string
	// Unaddressed is set if it has no ClusterSetIP and needs none, because the data path is none.
	Unaddressed bool
}

// addressOf returns the first address of a family, or "".
func addressOf(f Family, all []string) string {
	for _, s := range all {
		if a, err := netip.ParseAddr(s); err == nil && a.Unmap().Is4() == (f == IPv4) {
			return s
		}
	}
	return ""
}

// families returns the families that the pods of both clusters have.
func (f *Facts) families(of *Facts) (both []Family) {
	for _, family := range []Family{IPv4, IPv6} {
		if addressOf(family, f.Server.Addresses) != "" && addressOf(family, of.Server.Addresses) != "" {
			both = append(both, family)
		}
	}
	return both
}

// lacksEndpoints reports whether nothing is behind the import of a cluster's service, as far as that is known.
func (f *Facts) lacksEndpoints(of *Facts, family Family) bool {
	return f.Endpoints != nil && f.Endpoints[serviceOf(of.Cluster)+" "+family.String()] == ""
}

// waitsFor returns what isn't there yet before the questions can be asked.
func waitsFor(all []*Facts) (missing []string) {
	for _, f := range all {
		if !f.Server.Ready {
			missing = append(missing, f.Cluster+"'s server")
		}
		for _, name := range []string{serviceOf(f.Cluster), headlessOf(f.Cluster)} {
			if !f.Exports[name].Ready {
				missing = append(missing, f.Cluster+"'s export "+name)
			}
			for _, at := range all {
				if imp := at.Imports[name]; !imp.There || !imp.Ready || name == serviceOf(f.Cluster) && !imp.Unaddressed && len(imp.IPs) == 0 {
					missing = append(missing, f.Cluster+"'s "+name+" in "+at.Cluster)
				}
			}
		}
	}
	return missing
}
