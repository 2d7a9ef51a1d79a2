package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is clusterset's API group.
const GroupName = "clusterset.dev"

var (
	// GroupVersion is the group and version of this package's types.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that AddToScheme calls.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's types to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&MemberCluster{}, &MemberClusterList{},
		&ExportedService{}, &ExportedServiceList{},
		&ExportedEndpoints{}, &ExportedEndpointsList{},
		&MemberReport{}, &MemberReportList{},
		&Reachability{}, &ReachabilityList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
