package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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

// Withdrawn records go after a day, and the oldest beyond a thousand. Others stay. Rule C6 of docs/spec/control-plane.md.
func TestWithdrawnRecordsGo(t *testing.T) {
	aged := func(name string, age time.Duration, withdrawn bool) *clustersetv1alpha1.ExportedService {
		s := &clustersetv1alpha1.ExportedService{Spec: clustersetv1alpha1.ExportedServiceSpec{Withdrawn: withdrawn, Revision: epoch.Add(-age).UnixMilli()}}
		s.Name = name
		return s
	}
	all := []*clustersetv1alpha1.ExportedService{
		aged("yesterday", 25*time.Hour, true), aged("today", 23*time.Hour, true), aged("exported", 1000*time.Hour, false),
	}
	gone := func() (names []string) {
		for _, s := range expired(all, epoch.Time) {
			names = append(names, s.Name)
		}
		return names
	}
	if got := gone(); !slices.Equal(got, []string{"yesterday"}) {
		t.Errorf("%v are deleted", got)
	}
	for i := range mostWithdrawn + 1 {
		all = append(all, aged(fmt.Sprint(i), time.Duration(i)*time.Second, true))
	}
	if got := gone(); !slices.Equal(got, []string{"yesterday", "today", fmt.Sprint(mostWithdrawn)}) {
		t.Errorf("of too many, %v are deleted", got)
	}
}
