package exporter

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Exported returns the records that a Service would have on the hub if it were exported now, and what can't be exported of it.
// The error says why nothing can be exported.
func Exported(src Source, now metav1.Time) (Records, field.ErrorList, error) {
	if src.Export == nil {
		src.Export = &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: src.Key.Namespace, Name: src.Key.Name, CreationTimestamp: now}}
	}
	d := desired(src)
	switch {
	case d.Refused != nil:
		return Records{}, nil, errors.New(d.Refused.Message)
	case d.Service == nil:
		return Records{}, nil, fmt.Errorf("the ServiceExport %s is being deleted", src.Key)
	}
	return Records{d.Service, d.Endpoints}, d.LeftOut.List(), nil
}
