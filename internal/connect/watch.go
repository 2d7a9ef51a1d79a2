package connect

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// watching is a client whose watches of our kinds read an event's JSON four times in place of nine: client-go's look twice, at the event and at the
// object, for the kind that is known here. What the hub's watches bring is most of an agent's work for a change.
type watching struct {
	client.WithWatch
	rest rest.Interface
}

func newWatching(c client.WithWatch, config *rest.Config, connection *http.Client) (client.WithWatch, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &clustersetv1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(c.Scheme()).WithoutConversion() // of answers that refuse
	is, err := rest.RESTClientForConfigAndClient(config, connection)
	return &watching{c, is}, err
}

// Watch implements client.WithWatch.
func (w *watching) Watch(ctx context.Context, list client.ObjectList, of ...client.ListOption) (watch.Interface, error) {
	kind, err := apiutil.GVKForObject(list, w.Scheme())
	if err != nil {
		return nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := w.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	options := (&client.ListOptions{}).ApplyOptions(of)
	params := options.AsListOptions()
	params.Watch = true
	body, err := w.rest.Get().NamespaceIfScoped(options.Namespace, options.Namespace != "").Resource(mapping.Resource.Resource).
		SpecificallyVersionedParams(params, clientgoscheme.ParameterCodec, schema.GroupVersion{Version: "v1"}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	return watch.NewStreamWatcher(&frames{body, stdjson.NewDecoder(body), kind, w.Scheme()}, reporter), nil
}

// frames are the events of an open watch.
type frames struct {
	io.Closer
	from   *stdjson.Decoder
	kind   schema.GroupVersionKind
	scheme *runtime.Scheme
}

// Close implements watch.Decoder.
func (f *frames) Close() { _ = f.Closer.Close() }

// Decode implements watch.Decoder.
func (f *frames) Decode() (watch.EventType, runtime.Object, error) {
	var event struct {
		Type   watch.EventType
		Object stdjson.RawMessage
	}
	if err := f.from.Decode(&event); err != nil {
		return "", nil, err
	}
	if event.Type == watch.Error {
		status := &metav1.Status{}
		return event.Type, status, json.Unmarshal(event.Object, status)
	}
	o, err := f.scheme.New(f.kind)
	if err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(event.Object, o); err != nil {
		return "", nil, fmt.Errorf("decode %s: %w", f.kind.Kind, err)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as in a list
	return event.Type, o, nil
}
