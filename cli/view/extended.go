package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
)

// said reads the agent's last Events about Services for a reason, as far as they may be read and are still there: an hour by default.
func said(ctx context.Context, c *objects.Cluster, reason string) map[client.ObjectKey]string {
	var list eventsv1.EventList
	if c.List(ctx, &list, client.MatchingFields{"reason": reason}) != nil {
		return nil
	}
	at := func(e *eventsv1.Event) time.Time {
		if e.Series != nil {
			return e.Series.LastObservedTime.Time
		}
		return e.EventTime.Time
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return at(&a).Compare(at(&b)) })
	all := map[client.ObjectKey]string{}
	for i := range list.Items {
		e := &list.Items[i]
		all[client.ObjectKey{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name}] = fmt.Sprintf("%s (its agent said so %s ago)",
			strings.TrimPrefix(e.Note, notExtended), screen.Age(time.Since(at(e))))
	}
	return all
}

const reasonNotExtended, notExtended = "NotExtended", "not extended to other clusters: "

// extended counts the Services that lead to other clusters, and finds those that ask for it and don't.
func (s *Services) extended(l *LocalFacts) {
	for i := range l.Asking {
		a := &l.Asking[i]
		if a.Is {
			s.Extended++
			continue
		}
		key := client.ObjectKeyFromObject(a.Service)
		if why := cmp.Or(a.Refused(), l.refused(key), l.Refusals[key]); why != "" {
			s.Problems = append(s.Problems, Problem{Namespace: key.Namespace, Name: key.Name, What: "Service", Reason: reasonNotExtended, Message: notExtended + why})
		}
	}
}

// refused returns why a Service that may be extended isn't, as far as what is imported shows that. The rest only the agent's Event says.
func (l *LocalFacts) refused(key client.ObjectKey) string {
	at := slices.IndexFunc(l.Imports, func(o mcsv1beta1.ServiceImport) bool { return o.Namespace == key.Namespace && o.Name == key.Name })
	others := func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster != l.Cluster }
	switch {
	case at < 0 || !slices.ContainsFunc(l.Imports[at].Status.Clusters, others):
		return "no other cluster exports the service; export it there"
	case l.Imports[at].Spec.Type == mcsv1beta1.Headless || l.Agent != nil && l.Agent.DataPath == desired.DataPathNone:
		return "other clusters' endpoints can't be used behind an address here: the service is exported as a headless one, or the agent runs with --data-path=none"
	}
	return ""
}
