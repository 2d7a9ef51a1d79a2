package index

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/cases"
)

// wantErrors expects one error for each string in want, which has the form "<path>: <part of the message>".
func wantErrors(t *testing.T, name string, errs field.ErrorList, want []string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Errorf("%s: errors %v, want %q", name, errs, want)
		return
	}
	for i, w := range want {
		path, message, _ := strings.Cut(w, ": ")
		if errs[i].Field != path || !strings.Contains(errs[i].Error(), message) {
			t.Errorf("%s: error %q, want %q", name, errs[i], w)
		}
	}
}

// pathIndex is the index of a list or a map in a path.
var pathIndex = regexp.MustCompile(`\[[^]]*\]`)

// converts compares what the index keeps of a kind's objects with the cases of a file. These have an error for each field of the types that
// DNS reads, where not every value is valid.
func converts[Source, Kept any](t *testing.T, kind string, convert func(*Source) (*Kept, field.ErrorList), exempt string, types ...reflect.Type) {
	t.Helper()
	table := cases.Read(t, "testdata/cases/"+kind+".yaml")
	tried := strings.Fields(exempt)
	for _, c := range table.Cases {
		o, before := cases.Object[Source](t, table.Valid, c.Change), cases.Object[Source](t, table.Valid, c.Change)
		got, errs := convert(o)
		if text := textOf(got); text != c.Text {
			t.Errorf("%s:\n got %s\nwant %s", c.Name, text, c.Text)
		}
		wantErrors(t, c.Name, errs, c.Errors)
		if !reflect.DeepEqual(o, before) {
			t.Errorf("%s: the object, which an informer may own, was changed", c.Name)
		}
		for _, err := range errs {
			tried = append(tried, strings.Split(pathIndex.ReplaceAllString(err.Field, ""), ".")...)
		}
	}
	for _, of := range types {
		for _, f := range reflect.VisibleFields(of) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !slices.Contains(tried, name) {
				t.Errorf("%s: say what an invalid %s takes with it", of, name)
			}
		}
	}
}

// textOf returns an object's text. That of nil is "".
func textOf[T any](o *T) string {
	if o == nil {
		return ""
	}
	return strings.Replace(fmt.Sprintf("%+v", *o), " Policy:<nil>", "", 1)
}

// Rules A28 and A60 of docs/spec/answers.md: one invalid value in what people write takes with it only what it says itself, and is reported
// with its place. What an object or an endpoint is (its name, its service, its type, its cluster) can't be guessed: if that is invalid, it is
// left out.
func TestConversion(t *testing.T) {
	converts(t, "membercluster", FromMemberCluster, "drain cidrs communities network externalCIDRs", reflect.TypeFor[clustersetv1alpha1.MemberClusterSpec]())
	converts(t, "serviceimport", FromServiceImport, "sessionAffinity sessionAffinityConfig ipFamilies internalTrafficPolicy appProtocol",
		reflect.TypeFor[mcsv1beta1.ServiceImportSpec](), reflect.TypeFor[mcsv1beta1.ServicePort]())
	converts(t, "endpointslice", FromEndpointSlice, "conditions targetRef nodeName hints deprecatedTopology appProtocol",
		reflect.TypeFor[discoveryv1.Endpoint](), reflect.TypeFor[discoveryv1.EndpointPort]())
	converts(t, "globalservice", FromGlobalService, "ready targetRef appProtocol", reflect.TypeFor[fabedgev1alpha1.GlobalServiceSpec](),
		reflect.TypeFor[fabedgev1alpha1.ServicePort](), reflect.TypeFor[fabedgev1alpha1.Endpoint](), reflect.TypeFor[fabedgev1alpha1.EndpointPort]())
}
