package mcs

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// NewImport returns a ServiceImport to watch, or to read into.
func (v Version) NewImport() Object {
	if v == alpha {
		return &mcsv1alpha1.ServiceImport{}
	}
	return &mcsv1beta1.ServiceImport{}
}

// NewExport returns a ServiceExport to watch, or to read into.
func (v Version) NewExport() Object {
	if v == alpha {
		return &mcsv1alpha1.ServiceExport{}
	}
	return &mcsv1beta1.ServiceExport{}
}

// NewExportList returns a list of ServiceExports to read into.
func (v Version) NewExportList() ObjectList {
	if v == alpha {
		return &mcsv1alpha1.ServiceExportList{}
	}
	return &mcsv1beta1.ServiceExportList{}
}

// DecodeImport returns a ServiceImport of either version as one of v1beta1.
func DecodeImport(o Object) (*mcsv1beta1.ServiceImport, error) {
	if imp, ok := o.(*mcsv1beta1.ServiceImport); ok {
		return imp, nil
	}
	imp := &mcsv1beta1.ServiceImport{}
	return imp, convert(o, imp)
}

// EncodeImport returns a ServiceImport in the version.
func (v Version) EncodeImport(imp *mcsv1beta1.ServiceImport) (Object, error) {
	if v != alpha {
		return imp, nil
	}
	o := &mcsv1alpha1.ServiceImport{}
	return o, convert(imp, o)
}

// convert copies fields by name: Go doesn't convert structs with lists of different types.
func convert(from, to Object) error {
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

// DecodeExport returns a ServiceExport of either version as one of v1beta1.
func DecodeExport(o Object) *mcsv1beta1.ServiceExport {
	export, ok := o.(*mcsv1alpha1.ServiceExport)
	if !ok {
		return o.(*mcsv1beta1.ServiceExport)
	}
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: export.ObjectMeta,
		Spec:       mcsv1beta1.ServiceExportSpec(export.Spec),
		Status:     mcsv1beta1.ServiceExportStatus(export.Status),
	}
}

// EncodeExport returns a ServiceExport in the version.
func (v Version) EncodeExport(export *mcsv1beta1.ServiceExport) Object {
	if v != alpha {
		return export
	}
	return &mcsv1alpha1.ServiceExport{
		ObjectMeta: export.ObjectMeta,
		Spec:       mcsv1alpha1.ServiceExportSpec(export.Spec),
		Status:     mcsv1alpha1.ServiceExportStatus(export.Status),
	}
}
