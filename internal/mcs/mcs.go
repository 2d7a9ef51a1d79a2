// Package mcs is the Multi-Cluster Services API in whichever version an API server serves. All of our code uses v1beta1;
// objects of v1alpha1, which has the same fields, are converted when they are read and written.
package mcs

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Version is a version of the API.
type Version string

const alpha Version = "v1alpha1"

// Versions are all versions. The first that is served is used.
var Versions = []string{mcsv1beta1.GroupVersion.Version, string(alpha)}

// Object is an object of either version.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is a list of either version.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// Served returns the version of a kind that an API server serves. The error is a meta.NoMatchError if it serves none.
func Served(mapper meta.RESTMapper, kind string) (Version, error) {
	var err error
	for _, v := range Versions {
		if _, err = mapper.RESTMapping(schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: kind}, v); err == nil {
			return Version(v), nil
		}
		if !meta.IsNoMatchError(err) {
			break
		}
	}
	return "", fmt.Errorf("find the served version of %s: %w", kind, err)
}

// AddToScheme adds the types of both versions.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(mcsv1beta1.Install(s), mcsv1alpha1.Install(s))
}

// AddForReading adds the types of v1beta1 for both versions. Such a scheme can't be used for writing, because it doesn't know
// which version to write.
func AddForReading(s *runtime.Scheme) {
	utilruntime.Must(mcsv1beta1.Install(s))
	gv := alpha.groupVersion()
	s.AddKnownTypes(gv, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{})
	metav1.AddToGroupVersion(s, gv)
}

// Kind returns the full name of a kind.
func (v Version) Kind(kind string) schema.GroupVersionKind { return v.groupVersion().WithKind(kind) }

// APIVersion returns the version for owner references.
func (v Version) APIVersion() string { return v.groupVersion().String() }

func (v Version) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: string(v)}
}
