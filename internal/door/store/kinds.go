package store

import (
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// kind is one of the hub's kinds. The first two are the records.
type kind int

const (
	services kind = iota
	endpoints
	members
)

func (k kind) String() string {
	return [...]string{"exportedservices", "exportedendpoints", "memberclusters"}[k]
}

// list returns an empty list of the kind.
func (k kind) list() client.ObjectList {
	return [...]client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}, &clustersetv1alpha1.MemberClusterList{}}[k]
}

// open returns an error for a watch that couldn't be opened.
func open(w watch.Interface, err error) (watch.Interface, error) {
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) { // what client-go returns for some errors
		return nil, errors.New("the hub closed the connection, or didn't reply in time")
	}
	return w, err
}
