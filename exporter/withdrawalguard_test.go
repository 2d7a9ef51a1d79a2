package exporter

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/mcs"
)

// What the member's API server answers to a ServiceExport says whether it serves the kind; no answer doesn't. Rule C7 of
// docs/spec/control-plane.md.
func TestServed(t *testing.T) {
	kind := runtimeschema.GroupResource{Group: mcsv1beta1.GroupName, Resource: "serviceexports"}
	for what, c := range map[string]struct {
		answer error
		served bool
	}{
		"taken":              {nil, true},
		"a webhook hangs":    {&url.Error{Op: "Post", Err: context.DeadlineExceeded}, true},
		"there already":      {apierrors.NewAlreadyExists(kind, web.Name), true},
		"a policy's refusal": {apierrors.NewForbidden(kind, web.Name, errors.New("denied by policy")), true},
		"no namespace":       {apierrors.NewNotFound(runtimeschema.GroupResource{Resource: "namespaces"}, web.Namespace), true},
		"the kind goes":      {apierrors.NewForbidden(kind, web.Name, errors.New("create not allowed while custom resource definition is terminating")), false},
		"the kind is gone":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "post", kind, "", "404 page not found", 0, true), false},
	} {
		e := serviceExports{version: mcs.Version("v1beta1"), client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.answer },
		})}
		if gone, err := e.served(t.Context(), web); (gone == nil) != c.served || err != nil {
			t.Errorf("%s: %v, %v", what, gone, err)
		}
	}
	e := serviceExports{version: mcs.Version("v1beta1"), client: interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return &url.Error{Op: "Post", Err: errors.New("connection refused")}
		},
	})}
	if _, err := e.served(t.Context(), web); err == nil {
		t.Error("an API server that isn't reached serves the kind")
	}
}
