package connectivity

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Facts are what was seen in one cluster.
type Facts struct {
	// Cluster is its name in the set, Context the kubeconfig's name for it.
	Cluster, Context string
	Server, Client   Pod
	// Exports are the cluster's own, Imports those of all clusters, by name.
	Exports map[string]Export
	Imports map[string]Import
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

// Import is the state of a ServiceImport. If it is ready and has no IPs, it needs none: the data path is none.
type Import struct {
	Ready   bool
	Message string
	IPs     []string
}

// notThere is why a pod isn't ready that doesn't exist.
const notThere = "the pod isn't there"

func (c *Cluster) look(ctx context.Context, namespace string) (*Facts, error) {
	f := &Facts{Cluster: c.Name, Context: c.Context, Exports: map[string]Export{}, Imports: map[string]Import{}}
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
	return f, nil
}

// podOf returns a pod's state, and why it isn't ready: what its container waits for, or why it isn't scheduled.
func podOf(pods []corev1.Pod, name string) Pod {
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	if at < 0 {
		return Pod{Why: notThere}
	}
	status := &pods[at].Status
	p := Pod{Done: status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed}
	for _, ip := range status.PodIPs {
		p.Addresses = append(p.Addresses, ip.IP)
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			p.Ready = c.Status == corev1.ConditionTrue
		}
		if c.Status != corev1.ConditionTrue {
			p.Why = cmp.Or(p.Why, c.Message)
		}
	}
	for _, c := range status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			p.Why = cmp.Or(strings.TrimSpace(w.Reason+" "+w.Message), p.Why)
		}
	}
	if len(status.Conditions) == 0 {
		p.Why = "no scheduler or kubelet has taken the pod"
	}
	return p
}

func exportOf(e *mcsv1beta1.ServiceExport) Export {
	all := e.Status.Conditions
	state := Export{Seen: len(all) > 0, Ready: meta.IsStatusConditionTrue(all, string(mcsv1beta1.ServiceExportConditionReady))}
	for _, kind := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionReady, mcsv1beta1.ServiceExportConditionValid} {
		if c := meta.FindStatusCondition(all, string(kind)); c != nil && c.Status != metav1.ConditionTrue {
			state.Message = c.Message // that it isn't valid says more
		}
	}
	return state
}

func importOf(i *mcsv1beta1.ServiceImport) Import {
	state := Import{IPs: i.Spec.IPs}
	if c := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); c != nil {
		state.Ready, state.Message = c.Status == metav1.ConditionTrue, c.Message
	}
	return state
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
				if !at.Imports[name].Ready {
					missing = append(missing, f.Cluster+"'s "+name+" in "+at.Cluster)
				}
			}
		}
	}
	return missing
}
