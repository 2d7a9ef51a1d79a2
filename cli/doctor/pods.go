package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// programs are the words for what runs in pods.
var programs = map[string]string{view.PartMember: "clusterset member", view.PartHub: "clusterset hub", view.PartDNS: "the DNS servers"}

// manyRestarts is how often a pod that is ready may have restarted before that is a problem.
const manyRestarts = 5

// checkPods checks whether the pods of this cluster's agent, its DNS servers and the hub process run, and run the same version.
func checkPods(f *Facts) []Finding {
	switch {
	case f.Cluster.Err != nil || f.SetErr != nil:
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
		switch {
		case len(pods) > 0:
			all = append(all, checkPart(part, pods)...)
		case part != view.PartHub && !f.wants(part): // else checkWorkloads says why there is none
			all = append(all, skipped("no pod of %s is in this cluster; if that isn't intended, install the chart (%s.enabled), or scale its Deployment up", programs[part], part))
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		all = append(all, problem(fmt.Sprintf("pods run different versions: %s", screen.And(versions)), "finish the upgrade: helm upgrade, and kubectl rollout status of each Deployment"))
	}
	return all
}

// checkPart checks the pods of one part.
func checkPart(part string, pods []view.Pod) (all []Finding) {
	var down, unsteady []string
	restarts := int32(0)
	for i := range pods {
		p := &pods[i]
		restarts += p.Restarts
		switch text := fmt.Sprintf("%s (%s)", p.Name, state(p)); {
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

// state says in what state a pod is.
func state(p *view.Pod) string {
	var words []string
	if p.Waits != "" {
		words = append(words, p.Waits)
	}
	if p.Restarts > 0 || len(words) == 0 {
		words = append(words, screen.Counted(int(p.Restarts), "restart"))
	}
	return strings.Join(words, ", ")
}
