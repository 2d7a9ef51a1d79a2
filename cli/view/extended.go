package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
)

// Refusal is what the agent said last of a Service with which it didn't do what was asked.
type Refusal struct {
	Message string
	At      time.Time
}

// said reads the agent's Events about Services for a reason, as far as they may be read and are still there: an hour by default.
func said(ctx context.Context, c *objects.Cluster, reason string) map[client.ObjectKey]Refusal {
	var list eventsv1.EventList
	if c.List(ctx, &list, client.MatchingFields{"reason": reason}) != nil {
		return nil
	}
	all := map[client.ObjectKey]Refusal{}
	for i := range list.Items {
		e := &list.Items[i]
		key, at := client.ObjectKey{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name}, e.EventTime.Time
		if e.Series != nil {
			at = e.Series.LastObservedTime.Time
		}
		if at.After(all[key].At) {
			all[key] = Refusal{strings.TrimPrefix(e.Note, notExtended), at}
		}
	}
	return all
}

const reasonNotExtended, notExtended = "NotExtended", "not extended to other clusters: "

// extended counts the Services that lead to other clusters, and finds those that ask for it and don't.
func (s *Services) extended(l *LocalFacts, now time.Time) {
	for i := range l.Asking {
		a := &l.Asking[i]
		about := Problem{Namespace: a.Service.Namespace, Name: a.Service.Name, What: "Service", Reason: reasonNotExtended}
		at := slices.IndexFunc(l.Imports, func(o mcsv1beta1.ServiceImport) bool {
			return o.Namespace == a.Service.Namespace && o.Name == a.Service.Name
		})
		var imp *mcsv1beta1.ServiceImport
		if at >= 0 {
			imp = &l.Imports[at]
		}
		if a.Is {
			s.Extended++
			continue
		}
		why := cmp.Or(a.Refused(), refused(a.Service, imp, l))
		if said, ok := l.Refusals[client.ObjectKeyFromObject(a.Service)]; why == "" && ok {
			why = fmt.Sprintf("%s (its agent said so %s ago)", said.Message, screen.Age(now.Sub(said.At)))
		}
		if why != "" {
			about.Message = notExtended + why
			s.Problems = append(s.Problems, about)
		}
	}
}

// refused returns why a Service that may be extended isn't, as far as what is imported shows that.
func refused(svc *corev1.Service, imp *mcsv1beta1.ServiceImport, l *LocalFacts) string {
	others := func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster != l.Cluster }
	switch {
	case imp == nil || !slices.ContainsFunc(imp.Status.Clusters, others):
		return "no other cluster exports the service; export it there"
	case imp.Spec.Type == mcsv1beta1.Headless:
		return "the service is exported as a headless one, whose endpoints can't be used behind an address here"
	case l.Agent != nil && l.Agent.DataPath == desired.DataPathNone:
		return "other clusters' endpoints can't be used behind an address here: the agent runs with --data-path=none"
	case len(imp.Spec.Ports) > 0 && !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return has(imp, p) }):
		return "no other cluster exports one of its ports; they must have the same name and protocol, or without a name the same number"
	}
	return ""
}

// has reports whether an import has a port of a Service (D63). A port without a name is named after its number there.
func has(imp *mcsv1beta1.ServiceImport, port corev1.ServicePort) bool {
	protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
	unnamed := fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), port.Port)
	return slices.ContainsFunc(imp.Spec.Ports, func(p mcsv1beta1.ServicePort) bool {
		return cmp.Or(p.Protocol, corev1.ProtocolTCP) == protocol && (p.Name == port.Name || p.Port == port.Port && (port.Name == "" || p.Name == "" || p.Name == unnamed))
	})
}
