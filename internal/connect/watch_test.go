package connect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// The watches of the store ask for the same and bring the same as those of client-go, up to what ends them.
func TestWatchesAreThoseOfClientGo(t *testing.T) {
	record := `{"apiVersion":"clusterset.dev/v1alpha1","kind":"ExportedEndpoints","metadata":{"namespace":"clusterset-member-a","name":"web-1","resourceVersion":"%d"},` +
		`"spec":{"service":{"namespace":"shop","name":"web"},"addressType":"IPv4","endpoints":[{"addresses":["10.1.0.1"]}],"unknown":1}}`
	frames := ""
	for i, of := range []string{"ADDED", "MODIFIED", "BOOKMARK", "DELETED"} {
		frames += fmt.Sprintf(`{"type":%q,"object":`+record+"}\n", of, i)
	}
	for name, c := range map[string]struct {
		code int
		body string
	}{
		"the hub ends it":             {http.StatusOK, frames},
		"it has become too old":       {http.StatusOK, frames + `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`},
		"it is cut":                   {http.StatusOK, frames + `{"type":"ADDED","obj`},
		"something else comes":        {http.StatusOK, frames + "no JSON\n"},
		"an object isn't of the kind": {http.StatusOK, frames + `{"type":"ADDED","object":{"apiVersion":"clusterset.dev/v1alpha1","kind":"ExportedEndpoints","spec":1}}`},
		"it is refused":               {http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.String())
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(hub.Close)
			config := &rest.Config{Host: hub.URL, QPS: -1}
			theirs, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme(), Mapper: HubMapper()})
			if err != nil {
				t.Fatal(err)
			}
			ours, err := newWatching(theirs, config, http.DefaultClient)
			if err != nil {
				t.Fatal(err)
			}
			want, refused := eventsOf(t, theirs)
			got, isRefused := eventsOf(t, ours)
			if !reflect.DeepEqual(want, got) || apierrors.IsForbidden(refused) != apierrors.IsForbidden(isRefused) || (refused == nil) != (isRefused == nil) {
				t.Errorf("%+v, %v\nin place of\n%+v, %v", got, isRefused, want, refused)
			}
			if len(asked) != 2 || asked[0] != asked[1] {
				t.Errorf("they ask for %q", asked)
			}
		})
	}
}

// eventsOf returns what a watch brings. Of an error only the reason counts: they are worded differently.
func eventsOf(t *testing.T, of client.WithWatch) (all []watch.Event, err error) {
	t.Helper()
	w, err := of.Watch(t.Context(), &clustersetv1alpha1.ExportedEndpointsList{}, client.InNamespace("clusterset-member-a"),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "7", AllowWatchBookmarks: true}})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if status, is := event.Object.(*metav1.Status); is {
			event.Object = &metav1.Status{Reason: status.Reason, Code: status.Code}
		}
		all = append(all, event)
	}
	return all, nil
}
