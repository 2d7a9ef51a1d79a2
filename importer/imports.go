package importer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// importVersion is the version of the ServiceImport that the local API server serves. All of the importer works with
// v1beta1; where only v1alpha1 is served objects are converted at the border. The two have the same fields.
type importVersion string

var importVersions = []importVersion{"v1beta1", "v1alpha1"}

// servedImportVersion asks for the newest version that is served. The error is a meta.NoMatchError where none is.
func servedImportVersion(mapper meta.RESTMapper) (importVersion, error) {
	var err error
	for _, v := range importVersions {
		gk := schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceImportKindName}
		if _, err = mapper.RESTMapping(gk, string(v)); err == nil {
			return v, nil
		}
		if !meta.IsNoMatchError(err) {
			break
		}
	}
	return "", fmt.Errorf("find the served version of ServiceImport: %w", err)
}

// apiVersion is what owner references say.
func (v importVersion) apiVersion() string { return mcsv1beta1.GroupName + "/" + string(v) }

// empty returns an object to watch, or to read into.
func (v importVersion) empty() client.Object {
	if v == "v1alpha1" {
		return &mcsv1alpha1.ServiceImport{}
	}
	return &mcsv1beta1.ServiceImport{}
}

// decode returns the v1beta1 form of an object of the served version.
func (v importVersion) decode(o client.Object) (*mcsv1beta1.ServiceImport, error) {
	if imp, ok := o.(*mcsv1beta1.ServiceImport); ok {
		return imp, nil
	}
	imp := &mcsv1beta1.ServiceImport{}
	return imp, convert(o, imp)
}

// encode returns the object as the local API server takes it.
func (v importVersion) encode(imp *mcsv1beta1.ServiceImport) (client.Object, error) {
	if v != "v1alpha1" {
		return imp, nil
	}
	o := &mcsv1alpha1.ServiceImport{}
	return o, convert(imp, o)
}

func convert(from, to client.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, to); err != nil {
		return fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	return nil
}
