package view

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// What the agents have measured is shown, and what they can't reach is a problem with its cure. Rules D47, D51 and D52 of
// docs/spec/data-path.md.
func TestReach(t *testing.T) {
	verdict := func(name string, is metav1.ConditionStatus, reason string) clustersetv1alpha1.ClusterReachability {
		return clustersetv1alpha1.ClusterReachability{
			Name: name, Reachable: is, Reason: reason, Since: *ago(5 * time.Minute), RoundTripMicroseconds: 1234, Beacons: []string{"10.2.0.1:9471"},
		}
	}
	measured := func(age time.Duration, all ...clustersetv1alpha1.ClusterReachability) *clustersetv1alpha1.Reachability {
		return &clustersetv1alpha1.Reachability{ObjectMeta: metav1.ObjectMeta{Name: clustersetv1alpha1.ReachabilityName}, Cluster: "beijing", Stamp: metav1.NewMicroTime(now.Add(-age)), Clusters: all}
	}
	says := func(cluster string, age time.Duration, cantReach ...string) map[string]Heartbeat {
		return map[string]Heartbeat{cluster: {Renewed: now.Add(-age), CantReach: cantReach, Measures: true}}
	}
	for _, c := range []struct {
		name     string
		reach    *clustersetv1alpha1.Reachability
		heard    map[string]Heartbeat
		cell     string // of shanghai
		problems string // about, reason and a part of message or cure
	}{
		{"answers", measured(0, verdict("shanghai", metav1.ConditionTrue, "Answers")), nil, "1.2ms", ""},
		{"nothing is measured", measured(0, verdict("shanghai", metav1.ConditionUnknown, "NoBeacon")), nil, "", ""},
		{
			"one isn't measured", measured(0, verdict("shanghai", metav1.ConditionUnknown, "NoBeacon"), verdict("tianjin", metav1.ConditionTrue, "Answers")), nil,
			"not measured", "",
		},
		{"nothing is known", nil, nil, "", ""},
		{"no answer", measured(0, verdict("shanghai", metav1.ConditionFalse, "NoAnswer")), nil, "NO, for 5m", "shanghai Unreachable on the way to 10.2.0.1:9471"},
		{"refused", measured(0, verdict("shanghai", metav1.ConditionFalse, "Refused")), nil, "NO, for 5m", "shanghai Unreachable what refuses connections to 10.2.0.1:9471"},
		{"another cluster", measured(0, verdict("shanghai", metav1.ConditionFalse, "WrongCluster")), nil, "NO, for 5m", "shanghai Unreachable their networks overlap"},
		{"back for a moment", measured(0, verdict("shanghai", metav1.ConditionFalse, "Returning")), nil, "NO, for 5m", "shanghai Unreachable it answers again"},
		{
			"cut off itself", measured(0, verdict("shanghai", metav1.ConditionTrue, "AllUnreachable"), verdict("tianjin", metav1.ConditionTrue, "AllUnreachable")), nil, "1.2ms",
			"beijing AllUnreachable more likely cut off itself",
		},
		{"an agent that has stopped", measured(23*time.Minute, verdict("shanghai", metav1.ConditionFalse, "NoAnswer")), nil, "", "beijing ReachStale last said 23m ago"},
		{"an agent that is late", measured(5*time.Minute, verdict("shanghai", metav1.ConditionTrue, "Answers")), nil, "1.2ms", "beijing ReachStale last said 5m0s ago"},
		{"one that wrote in time", measured(3*time.Minute+30*time.Second, verdict("shanghai", metav1.ConditionTrue, "Answers")), nil, "1.2ms", ""},
		{"who reaches whom", measured(0, verdict("shanghai", metav1.ConditionTrue, "Answers")), map[string]Heartbeat{"tianjin": {Renewed: now, Measures: true, Unmeasured: []string{"shanghai"}}}, "tianjin   none         shanghai", ""},
		{"others, as they say on the hub", nil, says("shanghai", 0, "tianjin"), "", "shanghai CannotReach can't reach tianjin"},
		{"one that said so an hour ago", nil, says("shanghai", time.Hour, "tianjin"), "", "shanghai Unwatched its last heartbeat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Facts{Now: now, Local: &LocalFacts{Cluster: "beijing", Reach: c.reach}}
			for _, name := range []string{"beijing", "shanghai", "tianjin"} {
				f.Local.Members = append(f.Local.Members, member(name, "", clustersetv1alpha1.MemberReady, nil))
			}
			f.Hub = &HubFacts{Members: f.Local.Members, Heard: c.heard}
			r := Build(f)
			var got []string
			for _, p := range r.Problems {
				got = append(got, p.Name+" "+p.Reason+" "+p.Message+"; "+p.Cure)
			}
			words := strings.SplitN(c.problems, " ", 3)
			if c.problems == "" && len(got) > 0 || c.problems != "" && (len(got) != 1 || !strings.HasPrefix(got[0], words[0]+" "+words[1]+" ") || !strings.Contains(got[0], words[2])) {
				t.Errorf("problems %q, want %q", got, c.problems)
			}
			text := Screen{}.Render(r)
			if strings.Contains(text, "REACHED IN (") != (c.cell != "") || !strings.Contains(text, c.cell) {
				t.Errorf("want %q:\n%s", c.cell, text)
			}
		})
	}
}
