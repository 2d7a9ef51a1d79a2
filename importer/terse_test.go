package importer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/crds"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// answers counts the bytes of answers.
type answers struct {
	http.RoundTripper
	bytes int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = &answer{response.Body, a}
	}
	return response, err
}

type answer struct {
	io.ReadCloser
	of *answers
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.of.bytes += n
	return n, err
}

// A large GlobalService is written as any client writes it, with a short answer.
func TestTheAnswerToAGlobalServiceIsShort(t *testing.T) {
	plane := kube.StartAll(t, nil)[0]
	plane.Apply(t, crds.All()...)
	config := rest.CopyConfig(plane.Config())
	var heard answers
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { heard.RoundTripper = rt; return &heard })
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	plain := newClient(t, plane.Config())
	c, err := newTerse(plain, config, connection)
	if err != nil {
		t.Fatal(err)
	}
	g := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"a": "b"}}}
	g.Spec.Type = fabedgev1alpha1.ClusterIP
	for i := range 100 {
		g.Spec.Endpoints = append(g.Spec.Endpoints, fabedgev1alpha1.Endpoint{Cluster: "shanghai", Zone: "z", Region: "r", Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}})
	}
	is := &fabedgev1alpha1.GlobalService{}
	written := func(what string) {
		t.Helper()
		if err := plain.Get(t.Context(), client.ObjectKeyFromObject(g), is); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(is.Spec, g.Spec) || is.ResourceVersion != g.ResourceVersion || is.UID != g.UID || is.Generation != g.Generation || is.Labels["a"] != "b" {
			t.Errorf("%s: it is\n%+v\nwant\n%+v", what, is, g)
		}
		if by := is.ManagedFields; len(by) != 1 || by[0].Manager != api.FieldManagerImporter {
			t.Errorf("%s by %+v", what, is.ManagedFields)
		}
	}
	if err := c.Create(t.Context(), g, client.FieldOwner(api.FieldManagerImporter)); err != nil {
		t.Fatal(err)
	}
	written("created")
	g.Spec.Endpoints[7].Addresses = []string{"10.0.1.7"}
	if err := c.Update(t.Context(), g, client.FieldOwner(api.FieldManagerImporter)); err != nil {
		t.Fatal(err)
	}
	written("updated")
	if heard.bytes == 0 || heard.bytes > 4000 { // the object has 10 KB
		t.Errorf("the answers have %d bytes", heard.bytes)
	}

	old, foreign := g.DeepCopy(), g.DeepCopy()
	old.ResourceVersion, foreign.Spec.Type = "1", "Other"
	var status apierrors.APIStatus
	for what, got := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"a second one":     {c.Create(t.Context(), &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: g.Spec}), apierrors.IsAlreadyExists},
		"an old one":       {c.Update(t.Context(), old), apierrors.IsConflict},
		"an invalid one":   {c.Update(t.Context(), foreign), apierrors.IsInvalid},
		"one that is gone": {c.Update(t.Context(), &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "none"}, Spec: g.Spec}), apierrors.IsNotFound},
	} {
		if !got.is(got.err) || !errors.As(got.err, &status) || status.Status().Message == "" {
			t.Errorf("%s: %v", what, got.err)
		}
	}
}
