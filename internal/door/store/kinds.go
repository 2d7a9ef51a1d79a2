package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// kind is one of the hub's kinds. The first two are the records.
type kind int

const (
	services kind = iota
	endpoints
	members
)

// resource returns the kind's name in URLs.
func (k kind) resource() string {
	return [...]string{"exportedservices", "exportedendpoints", "memberclusters"}[k]
}

// hub lists and watches a kind in one namespace, or in all ("").
type hub interface {
	list(ctx context.Context, k kind, namespace string, options metav1.ListOptions) (runtime.Object, error)
	watch(ctx context.Context, k kind, namespace string, options metav1.ListOptions) (watch.Interface, error)
}

// server is a hub's API server.
type server struct{ rest.Interface }

func newServer(config *rest.Config, over *http.Client) (server, error) {
	scheme := runtime.NewScheme()
	if err := clustersetv1alpha1.AddToScheme(scheme); err != nil {
		return server{}, fmt.Errorf("store: %w", err)
	}
	of, err := apiutil.RESTClientForGVK(clustersetv1alpha1.GroupVersion.WithKind("MemberCluster"), true, false, config, serializer.NewCodecFactory(scheme), over)
	if err != nil {
		return server{}, fmt.Errorf("store: %w", err)
	}
	return server{of}, nil
}

func (s server) request(k kind, namespace string, options metav1.ListOptions) *rest.Request {
	return s.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.resource()).VersionedParams(&options, metav1.ParameterCodec)
}

func (s server) list(ctx context.Context, k kind, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	return s.request(k, namespace, options).Do(ctx).Get()
}

func (s server) watch(ctx context.Context, k kind, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return open(s.request(k, namespace, options).Watch(ctx))
}

// open returns an error for a watch that couldn't be opened.
func open(w watch.Interface, err error) (watch.Interface, error) {
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) { // what client-go returns for some errors
		return nil, errors.New("the hub closed the connection, or didn't reply in time")
	}
	return w, err
}
