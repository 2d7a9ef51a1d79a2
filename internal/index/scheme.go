package index

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/mcs"
)

// NewScheme returns a scheme with the kinds that DNS serves.
func NewScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(discoveryv1.AddToScheme(s))
	mcs.AddForReading(s)
	utilruntime.Must(fabedgev1alpha1.AddToScheme(s))
	utilruntime.Must(clustersetv1alpha1.AddToScheme(s))
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// Convert converts an API object to an index object. The result is nil if nothing of the object can be served. ok is
// false for a kind that is not served.
func Convert(o runtime.Object) (object Object, errs field.ErrorList, ok bool) {
	switch o := o.(type) {
	case *mcsv1beta1.ServiceImport:
		object, errs = orNil(FromServiceImport(o))
	case *discoveryv1.EndpointSlice:
		object, errs = orNil(FromEndpointSlice(o))
	case *fabedgev1alpha1.GlobalService:
		object, errs = orNil(FromGlobalService(o))
	case *clustersetv1alpha1.MemberCluster:
		object, errs = orNil(FromMemberCluster(o))
	case *clustersetv1alpha1.Reachability:
		object, errs = orNil(FromReachability(o))
	default:
		return nil, nil, false
	}
	return object, errs, true
}

// orNil makes a nil pointer a nil interface.
func orNil[O interface {
	comparable
	Object
}](o O, errs field.ErrorList) (Object, field.ErrorList) {
	var none O
	if o == none {
		return nil, errs
	}
	return o, errs
}
