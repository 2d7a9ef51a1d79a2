package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// reportOf returns what a report says: a command with its arguments, in which @hub and @beijing stand for kubeconfigs.
func reportOf(ctx context.Context, f *fleettest.Fleet, report string) (string, error) {
	files := []string{"@hub", f.Hub.Plane.Kubeconfig()}
	for _, m := range f.Members {
		files = append(files, "@"+m.Spec.Name, m.Plane.Kubeconfig())
	}
	bin := fleettest.Binaries()
	args := strings.Fields(strings.NewReplacer(files...).Replace(report))
	out, err := process.CombinedOutput(bin.Command(ctx, filepath.Dir(bin.Clusterset), args...))
	if len(out) > 0 { // some end with 1 where there is a problem
		return string(out), nil
	}
	return "", err
}

// reportsSay waits until each report has all of its words, or none of them. A report that has is asked no more: each starts the command line.
func reportsSay(t *testing.T, f *fleettest.Fleet, words map[string]string, all bool) {
	t.Helper()
	left := maps.Clone(words)
	kube.Eventually(t, func() error {
		var errs []error
		for report, list := range left {
			text, err := reportOf(t.Context(), f, report)
			for _, word := range strings.Split(list, ", ") {
				if err == nil && strings.Contains(text, word) != all {
					err = fmt.Errorf("%s: %q is there: %v\n%s", report, word, !all, text)
				}
			}
			if err == nil {
				delete(left, report)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// No report is green beside a broken set: while a fault lasts, each says so, from the hub's side and the members', and when it is over none does.
// Faults that a unit test of one report shows (TestNoFaultIsGreen) aren't repeated here, but those that people make with the whole at work are.
// That the console shows what the others do is in TestEveryReportShowsEveryProblem.
func TestNoReportIsGreenBesideAFault(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("faults")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	for i, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", port8080, endpoint(fmt.Sprintf("10.%d.14.1", 200+i))))
	}
	some, none := slice(ns, "solo", port8080, endpoint("10.200.14.2")), slice(ns, "solo", port8080)
	prefer := func(tiers string) string {
		return exportWith(ns, "web", fmt.Sprintf("clusterset.dev/prefer: %q", tiers))
	}
	beijing.Apply(exported(ns, "solo", headless), some)
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "beijing", "tianjin", "shanghai") })
	const hub, here, checked, there = "status --hub-kubeconfig @hub", "status --kubeconfig @beijing", "doctor --kubeconfig @beijing", "status --kubeconfig @shanghai"
	token := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.MemberServiceAccount}}
	// The faults of a group are made together: it takes most of a minute until some are noticed.
	for _, group := range []struct {
		name       string
		make, undo func()
		reports    map[string]string // what each says
	}{
		{"networks leave out what a cluster exports, nothing is behind a name, and a policy is misspelled", func() {
			patchMember(f, "tianjin", `{"spec":{"cidrs":["10.9.0.0/16"]}}`)
			beijing.Apply(none, prefer("zone regoin"))
		}, func() {
			patchMember(f, "tianjin", `{"spec":{"cidrs":null}}`)
			beijing.Apply(some, prefer("zone"))
		}, map[string]string{
			hub: "OutsideCIDRs", here: "OutsideCIDRs, LeftOut, NoEndpoints, NotUsed", checked: "OutsideCIDRs, LeftOut, NoEndpoints, NotUsed",
			"explain " + ns + "/web --kubeconfig @beijing": "LeftOut, NotUsed", "services " + ns + "/solo --hub-kubeconfig @hub": "NoEndpoints",
		}},
		{"an agent is stopped, a token revoked, and the hub process killed", func() {
			shanghai.KillAgent()
			if err := f.Hub.Client.Delete(context.Background(), token); err != nil {
				t.Fatal(err)
			}
			f.Hub.Kill()
		}, func() {
			shanghai.StartAgent()
			if err := beijing.Join(context.Background(), f.Hub, "--rejoin"); err != nil {
				t.Fatal(err)
			}
			f.Hub.Restart()
		}, map[string]string{
			hub: "NoHubProcess", here: "TokenRefused", checked: "TokenRefused", checked + " --hub-kubeconfig @hub": "NoHubProcess", there: "AgentStopped",
		}},
	} {
		t.Run(group.name, func(t *testing.T) {
			reportsSay(t, f, group.reports, false)
			group.make()
			reportsSay(t, f, group.reports, true)
			if i, err := tianjin.Imported(ns, "web"); err != nil || !strings.Contains(fmt.Sprint(i.Slices), "10.201.14.1") {
				t.Errorf("tianjin has lost its own endpoint to its own networks: %v %v", i.Slices, err)
			}
			group.undo()
			reportsSay(t, f, group.reports, false)
		})
	}
	reportsSay(t, f, map[string]string{hub: "Problems  none", here: "Problems  none", there: "Problems  none"}, true)
}
