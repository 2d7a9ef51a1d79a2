package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// Workload is a Deployment or DaemonSet of ours.
type Workload struct {
	Part, Kind, Namespace, Name string
	Labels                      map[string]string
	// Wanted is how many pods it should have, and Pods how many it has, ready or not.
	Wanted, Pods int32
	// Refused is why the API server refuses to create its pods. A DaemonSet has that only in its Events.
	Refused string
	// Corefile is the ConfigMap of a DNS server, empty if it isn't known.
	Corefile string
}

// workloads reads ours, in whatever namespace they are. Other software has parts called dns and hub too.
func workloads(ctx context.Context, c *objects.Cluster) (all []Workload, err error) {
	add := func(o client.Object, pods *corev1.PodTemplateSpec, w *Workload) {
		w.Part, w.Namespace, w.Name, w.Labels = pods.Labels[objects.Component], o.GetNamespace(), o.GetName(), pods.Labels
		for _, v := range pods.Spec.Volumes {
			if v.Name == "corefile" && v.ConfigMap != nil {
				w.Corefile = v.ConfigMap.Name
			}
		}
		if objects.Program(&pods.Spec, w.Part) != nil {
			all = append(all, *w)
		}
	}
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, client.HasLabels{objects.Component}); err != nil {
		return nil, c.Words(err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		w := Workload{Kind: "Deployment", Wanted: 1, Pods: d.Status.Replicas}
		if d.Spec.Replicas != nil {
			w.Wanted = *d.Spec.Replicas
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
				w.Refused = cmp.Or(condition.Message, condition.Reason)
			}
		}
		add(d, &d.Spec.Template, &w)
	}
	var sets appsv1.DaemonSetList
	if err := c.List(ctx, &sets, client.HasLabels{objects.Component}); err != nil {
		return nil, c.Words(err)
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		add(s, &s.Spec.Template, &Workload{Kind: "DaemonSet", Wanted: s.Status.DesiredNumberScheduled, Pods: s.Status.CurrentNumberScheduled})
	}
	return all, nil
}

// checkWorkloads checks whether our Deployments and DaemonSets get their pods. Whether these are ready is for checkPods.
func checkWorkloads(f *Facts) (all []Finding) {
	if f.WorkloadsErr != nil {
		return []Finding{skipped("can't tell whether our pods can be created: %v", f.WorkloadsErr)}
	}
	for i := range f.Workloads {
		w := &f.Workloads[i]
		if w.Pods >= w.Wanted && w.Refused == "" {
			continue
		}
		message := fmt.Sprintf("%d of %d pods of %s exist (%s %s/%s)", w.Pods, w.Wanted, programs[w.Part], w.Kind, w.Namespace, w.Name)
		if w.Refused != "" {
			message += ", and no more can be created: " + w.Refused
		}
		all = append(all, problem(message, fmt.Sprintf("kubectl -n %s get events --field-selector reason=FailedCreate says why: it can be Pod Security, "+
			"a quota, or a PriorityClass that doesn't exist", w.Namespace)))
	}
	return all
}

var programs = map[string]string{view.PartMember: "clusterset member", view.PartHub: "clusterset hub", view.PartDNS: "the DNS servers"}

// manyRestarts is how often a pod that is ready may have restarted before that is a problem.
const manyRestarts = 5

// checkPods checks whether the pods of this cluster's agent, its DNS servers and the hub process run, and run the same version.
func checkPods(f *Facts) []Finding {
	switch {
	case f.SetErr != nil:
		return nil
	case f.PodsErr != nil:
		return []Finding{skipped("can't tell whether our pods run: %v", f.PodsErr)}
	}
	var all []Finding
	var versions []string
	for _, part := range []string{view.PartMember, view.PartDNS, view.PartHub} {
		var pods []view.Pod
		for _, p := range f.Pods {
			if p.Part == part {
				pods = append(pods, p)
				versions = append(versions, p.Version)
			}
		}
		wanted := slices.ContainsFunc(f.Workloads, func(w Workload) bool { return w.Part == part && w.Wanted > 0 })
		switch {
		case len(pods) > 0:
			all = append(all, checkPart(part, pods)...)
		case part != view.PartHub && !wanted: // else checkWorkloads says why there is none
			all = append(all, skipped("no pod of %s is in this cluster; if that isn't intended, install the chart (%s.enabled), or scale its Deployment up", programs[part], part))
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		all = append(all, problem(fmt.Sprintf("pods run different versions: %s", screen.And(versions)), "finish the upgrade: helm upgrade, and kubectl rollout status of each Deployment"))
	}
	return all
}

func checkPart(part string, pods []view.Pod) (all []Finding) {
	var down, unsteady []string
	restarts := int32(0)
	for i := range pods {
		p := &pods[i]
		restarts += p.Restarts
		state := strings.TrimPrefix(p.Waits+", "+screen.Counted(int(p.Restarts), "restart"), ", ")
		switch text := fmt.Sprintf("%s (%s)", p.Name, state); {
		case !p.Ready:
			down = append(down, text)
		case p.Restarts >= manyRestarts:
			unsteady = append(unsteady, text)
		}
	}
	cure := func(pod string) string {
		name, _, _ := strings.Cut(pod, " ")
		return fmt.Sprintf("kubectl -n %s describe pod %s says why it isn't ready; kubectl -n %[1]s logs %[2]s (and --previous) what it says itself", pods[0].Namespace, name)
	}
	if len(down) > 0 {
		all = append(all, problem(fmt.Sprintf("%s of %s not ready: %s", screen.Counted(len(down), "pod"), programs[part], screen.Several(down, shownServices, ", ")), cure(down[0])))
	}
	if len(unsteady) > 0 {
		all = append(all, problem(fmt.Sprintf("pods of %s keep restarting: %s", programs[part], screen.Several(unsteady, shownServices, ", ")), cure(unsteady[0])))
	}
	if len(all) == 0 {
		all = append(all, ok("%s of %s, all ready, version %s, %s", screen.Counted(len(pods), "pod"), programs[part], screen.Or(pods[0].Version), screen.Counted(int(restarts), "restart")))
	}
	return all
}

// checkLocation compares the DNS servers' location with that of their MemberCluster. If they differ, the servers take endpoints of their own cluster
// for distant ones.
func checkLocation(f *Facts) []Finding {
	m := f.Member
	if m == nil {
		return nil
	}
	var all []Finding
	elsewhere := map[string][]string{} // pods, by where they think they are
	servers := 0
	for i := range f.Pods {
		if p := &f.Pods[i]; p.Part == view.PartDNS {
			servers++
			if !isAt(p, m) {
				at := place.Place(p.Location).String()
				elsewhere[at] = append(elsewhere[at], p.Name)
			}
		}
	}
	is := place.Place{Cluster: m.Name, Zone: strings.Join(m.AllZones(), ","), Region: m.Spec.Region}.String()
	for _, at := range slices.Sorted(maps.Keys(elsewhere)) {
		all = append(all, problem(
			fmt.Sprintf("DNS servers rank endpoints from %s, but their MemberCluster is at %s: %s", at, is, screen.Several(elsewhere[at], shownServices, ", ")),
			fmt.Sprintf("set location in the chart's values to the cluster, zone and region of the MemberCluster; if that is wrong, kubectl edit membercluster %s on the hub", m.Name)))
	}
	if servers > 0 && len(all) == 0 {
		all = append(all, ok("the DNS servers rank endpoints from where their MemberCluster is, %s", is))
	}
	if f.Set.Steered != "" {
		all = append(all, ok("ClusterSetIPs are steered %s", f.Set.Steered))
	}
	return all
}

// isAt reports whether a server's location agrees with its cluster's. A node's own zone is right where the cluster has others, because its
// endpoints have theirs too. And in a cluster with several zones, a server whose pod doesn't have its node's labels knows none.
func isAt(p *view.Pod, m *clustersetv1alpha1.MemberCluster) bool {
	zones, l := m.AllZones(), p.Location
	switch {
	case l.Cluster != m.Name || m.Spec.Region != "" && l.Region != m.Spec.Region:
		return false
	case l.Zone == "":
		return len(zones) != 1
	}
	return p.ZoneOfNode || len(zones) == 0 || slices.Contains(zones, l.Zone)
}
