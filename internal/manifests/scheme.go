package manifests

import (
	"bytes"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
)

// strict reads objects from JSON and says which fields it doesn't know, which are mostly misspelt.
var (
	strict = json.NewSerializerWithOptions(headFirst{}, known, known, json.SerializerOptions{Strict: true})
	known  = NewScheme()
)

// headFirst finds an object's kind where it begins with apiVersion and kind, as those that Append writes do. To look for them in
// all of it takes a third of the time of reading it.
type headFirst struct{ json.SimpleMetaFactory }

// Interpret implements json.MetaFactory.
func (f headFirst) Interpret(data []byte) (*schema.GroupVersionKind, error) {
	if rest, ok := bytes.CutPrefix(data, []byte(`{"apiVersion":"`)); ok {
		version, rest, _ := bytes.Cut(rest, []byte(`","kind":"`))
		kind, _, _ := bytes.Cut(rest, []byte(`"`))
		if gvk := schema.FromAPIVersionAndKind(string(version), string(kind)); known.Recognizes(gvk) {
			return &gvk, nil
		}
	}
	return f.SimpleMetaFactory.Interpret(data)
}

// NewScheme returns a scheme with the kinds that DNS serves. A ServiceImport of v1alpha1 has the fields of v1beta1 and is
// read as one.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(discoveryv1.AddToScheme(s))
	utilruntime.Must(mcsv1beta1.Install(s))
	utilruntime.Must(fabedgev1alpha1.AddToScheme(s))
	utilruntime.Must(clustersetv1alpha1.AddToScheme(s))
	alpha := schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: "v1alpha1"}
	s.AddKnownTypes(alpha, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{})
	metav1.AddToGroupVersion(s, alpha)
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// Convert reads an object as the index takes it: nil for one of which nothing can be served. ok is false for a kind that is
// not served at all.
func Convert(o runtime.Object) (object index.Object, errs field.ErrorList, ok bool) {
	switch o := o.(type) {
	case *mcsv1beta1.ServiceImport:
		object, errs = orNil(index.FromServiceImport(o))
	case *discoveryv1.EndpointSlice:
		object, errs = orNil(index.FromEndpointSlice(o))
	case *fabedgev1alpha1.GlobalService:
		object, errs = orNil(index.FromGlobalService(o))
	case *clustersetv1alpha1.MemberCluster:
		object, errs = orNil(index.FromMemberCluster(o))
	default:
		return nil, nil, false
	}
	return object, errs, true
}

// orNil makes a nil pointer a nil interface.
func orNil[O interface {
	comparable
	index.Object
}](o O, errs field.ErrorList) (index.Object, field.ErrorList) {
	var none O
	if o == none {
		return nil, errs
	}
	return o, errs
}
