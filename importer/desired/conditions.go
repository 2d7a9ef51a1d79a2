package desired

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/text"
)

const (
	// maxNamed is how many clusters a condition names, and maxFirst how many bytes of the first thing that is left out it has.
	maxNamed, maxFirst = 5, 500
)

// complete returns the condition Complete if parts of the exports are left out, or not all could be written; else nothing.
func complete(drops []merge.Drop, blocked string) []metav1.Condition {
	var said []string
	if len(drops) > 0 {
		count, of := 0, make([]string, len(drops))
		for i, d := range drops {
			count, of[i] = count+d.Values.Count, cmp.Or(d.Cluster, "no cluster")
		}
		slices.Sort(of)
		are := "are"
		if count == 1 {
			are = "is"
		}
		said = append(said, fmt.Sprintf("%s of the exports of %s %s left out; the first: %s",
			Counted(count, "part"), text.First(slices.Compact(of), maxNamed), are, text.Truncate(drops[0].String(), maxFirst)))
	}
	if blocked != "" {
		said = append(said, "not all could be written: "+blocked)
	}
	return amiss(api.ConditionComplete, api.ReasonLeftOut, strings.Join(said, ". "))
}

// confirmed returns the condition Confirmed if parts stay without a record; else nothing.
func confirmed(without []string) []metav1.Condition {
	if len(without) == 0 {
		return nil
	}
	return amiss(api.ConditionConfirmed, api.ReasonNoRecord, fmt.Sprintf(
		"the hub has no record of the exports of %s, which stay as they were imported last until it has one, says that they are withdrawn, or has been without one for a day while their cluster is Ready",
		text.First(without, maxNamed)))
}

// endpoints returns the condition Endpoints if clients reach no ready endpoint of any cluster; else nothing.
func (w *work) endpoints() []metav1.Condition {
	if slices.ContainsFunc(w.clusters, w.serves) {
		return nil
	}
	seen := "its name has no address"
	switch {
	case w.resolved.Type == mcsv1beta1.Headless:
		seen = "its name is NXDOMAIN"
	case w.hasVIP():
		seen = "connections to its ClusterSetIP are refused"
	}
	export := "export"
	if len(w.resolved.Clusters) == 1 {
		export = "exports"
	}
	return amiss(api.ConditionEndpoints, api.ReasonNoEndpoints, fmt.Sprintf("no endpoint is ready in %s, which %s the service: %s",
		text.First(w.resolved.Clusters, maxNamed), export, seen))
}

// serves reports whether the cluster has a ready endpoint that the service leads to, whatever the cluster's phase.
func (w *work) serves(c *cluster) bool {
	switch {
	case !c.anyReady() || w.resolved.Type == mcsv1beta1.Headless:
		return c.anyReady()
	case w.in.DataPath == DataPathClusterIPs && !w.routes(c):
		return w.offersClusterIP(c)
	}
	return w.exposesAny(c)
}

// amiss returns a condition that is False, or nothing if there is nothing to say. LastTransitionTime is left to meta.SetStatusCondition.
func amiss(kind, reason, message string) []metav1.Condition {
	if message == "" {
		return nil
	}
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}
