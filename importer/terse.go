package importer

import (
	"context"
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// justMetadata asks for an object's metadata in place of the object, as protobuf if the API server can.
const justMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// terse is a client whose writes of GlobalServices the API server answers with their metadata. A GlobalService is written whole for each endpoint
// that changes, and to read the whole answer costs more than to write it. What an admission webhook changed in it isn't known then: it stays as
// the webhook wants it, until we write it again.
type terse struct {
	client.Client
	globals rest.Interface
	options runtime.ParameterCodec
}

func newTerse(c client.Client, config *rest.Config, connection *http.Client) (client.Client, error) {
	config = metadata.ConfigFor(config) // reads metadata only, in protobuf or JSON
	config.GroupVersion, config.APIPath = &fabedgev1alpha1.GroupVersion, "/apis"
	globals, err := rest.RESTClientForConfigAndClient(config, connection)
	if err != nil {
		return nil, err
	}
	return &terse{c, globals, runtime.NewParameterCodec(c.Scheme())}, nil
}

// Create implements client.Client.
func (t *terse) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	g, is := o.(*fabedgev1alpha1.GlobalService)
	if !is {
		return t.Client.Create(ctx, o, opts...)
	}
	how := (&client.CreateOptions{}).ApplyOptions(opts).AsCreateOptions()
	return t.send(ctx, t.globals.Post().VersionedParams(how, t.options), g)
}

// Update implements client.Client.
func (t *terse) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	g, is := o.(*fabedgev1alpha1.GlobalService)
	if !is {
		return t.Client.Update(ctx, o, opts...)
	}
	how := (&client.UpdateOptions{}).ApplyOptions(opts).AsUpdateOptions()
	return t.send(ctx, t.globals.Put().Name(g.Name).VersionedParams(how, t.options), g)
}

// send sends a GlobalService, which gets the metadata of the answer.
func (t *terse) send(ctx context.Context, request *rest.Request, g *fabedgev1alpha1.GlobalService) error {
	whole := *g
	whole.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalService"))
	body, err := json.Marshal(&whole)
	if err != nil {
		return err
	}
	var is metav1.PartialObjectMetadata
	err = request.Namespace(g.Namespace).Resource("globalservices").SetHeader("Accept", justMetadata).SetHeader("Content-Type", runtime.ContentTypeJSON).
		Body(body).Do(ctx).Into(&is)
	if err != nil {
		return err
	}
	g.ObjectMeta = is.ObjectMeta
	return nil
}
