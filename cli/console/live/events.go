package live

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/console"
	"github.com/clusterset/clusterset/cli/objects"
)

// maxEvents bounds the Events that are read of one controller at a time. A storm of them is never the reason that the API server suffers.
const maxEvents = 5000

// The controllers that write Events on the hub, and in members.
var (
	ofHub    = []string{"clusterset-hub"}
	ofMember = []string{"clusterset-exporter", "clusterset-importer"}
)

// tell passes on what controllers said in Events.
func (s source) tell(ctx context.Context, c *objects.Cluster, controllers []string) {
	events, err := eventsOf(ctx, c, s.get(), controllers)
	if ctx.Err() == nil {
		s.console.SetEvents(s.number, events, err)
	}
}

// eventsOf reads what controllers said in Events.
func eventsOf(ctx context.Context, c *objects.Cluster, source console.Source, controllers []string) (all []console.Happened, err error) {
	for _, controller := range controllers {
		var list eventsv1.EventList
		if err := c.List(ctx, &list, client.MatchingFields{"reportingController": controller}, client.Limit(maxEvents)); err != nil {
			return all, c.Words(err)
		}
		for i := range list.Items {
			all = append(all, happened(&list.Items[i], source))
		}
		if list.Continue != "" {
			err = fmt.Errorf("there are more than %d of %s: some are missing here", maxEvents, controller)
		}
	}
	return all, err
}

func happened(e *eventsv1.Event, source console.Source) console.Happened {
	h := console.Happened{
		ID: string(e.UID), Time: e.EventTime.Time, Context: source.Context, Cluster: source.Cluster,
		What: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name, Reason: e.Reason, Message: e.Note, Warning: e.Type == corev1.EventTypeWarning,
	}
	if e.Series != nil {
		h.Time, h.Count = e.Series.LastObservedTime.Time, int(e.Series.Count)
	}
	return h
}
