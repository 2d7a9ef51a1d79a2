package clusterset

import (
	"fmt"
	"net/http"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/mcs"
)

// watchedKind describes how the objects of a kind are listed, watched and decoded.
type watchedKind struct {
	kind            index.Kind
	group, resource string
	versions        []string // in order of preference
	selector        string
	protobuf        bool
	optional        bool           // whether the server answers without it
	object          runtime.Object // of the type that a watch yields
	newList         func() runtime.Object
}

var watchedKinds = []*watchedKind{
	{
		kind: index.KindServiceImport, group: mcsv1beta1.GroupName, resource: "serviceimports",
		versions: mcs.Versions,
		object:   &mcsv1beta1.ServiceImport{},
		newList:  func() runtime.Object { return &mcsv1beta1.ServiceImportList{} },
	},
	{
		// Only slices of the Multi-Cluster Services API. The cluster's own slices, thousands more, aren't transferred.
		kind: index.KindEndpointSlice, group: discoveryv1.GroupName, resource: "endpointslices",
		versions: []string{"v1"}, selector: mcsv1beta1.LabelServiceName, protobuf: true,
		object:  &discoveryv1.EndpointSlice{},
		newList: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
	},
	{
		kind: index.KindGlobalService, group: fabedgev1alpha1.GroupName, resource: "globalservices",
		versions: []string{"v1alpha1"},
		object:   &fabedgev1alpha1.GlobalService{},
		newList:  func() runtime.Object { return &fabedgev1alpha1.GlobalServiceList{} },
	},
	{
		kind: index.KindMemberCluster, group: clustersetv1alpha1.GroupName, resource: "memberclusters",
		versions: []string{"v1alpha1"},
		object:   &clustersetv1alpha1.MemberCluster{},
		newList:  func() runtime.Object { return &clustersetv1alpha1.MemberClusterList{} },
	},
	{
		// Where it is missing, or may not be read, all clusters count as reachable.
		kind: index.KindReachability, group: clustersetv1alpha1.GroupName, resource: "reachabilities",
		versions: []string{"v1alpha1"}, optional: true,
		object:  &clustersetv1alpha1.Reachability{},
		newList: func() runtime.Object { return &clustersetv1alpha1.ReachabilityList{} },
	},
}

// codecs decodes the watched kinds. A v1alpha1 ServiceImport has the fields of v1beta1 and is decoded as such.
var codecs = serializer.NewCodecFactory(index.NewScheme())

// client returns a client for one version of the kind. Custom resources are available as JSON only. EndpointSlices are read
// as protobuf, which takes a fraction of the time to decode.
func (k *watchedKind) client(config *rest.Config, client *http.Client, version string) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	c.GroupVersion = &schema.GroupVersion{Group: k.group, Version: version}
	c.NegotiatedSerializer = codecs.WithoutConversion()
	c.QPS = -1 // five lists and five watches need no client-side throttle
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if k.protobuf {
		c.ContentType = runtime.ContentTypeProtobuf
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return rest.RESTClientForConfigAndClient(c, client)
}

// store is what a Reflector writes to. It keeps nothing: objects go to the indexes in their compact form, so that there is
// one copy of what DNS needs, and no copy of the rest.
type store struct {
	kind   *watchedKind
	source *source
	age    ageing
}

// converted is an object on its way through the Reflector's temporary store.
type converted struct {
	id     index.ObjectID
	object index.Object
	errs   field.ErrorList
}

// Transformer implements cache.TransformingStore: a streamed list collects compact objects instead of API objects.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return s.convert(o) }
}

func (s *store) convert(o any) (converted, error) {
	if c, ok := o.(converted); ok {
		return c, nil
	}
	id, err := idOf(o)
	if err != nil {
		return converted{}, err
	}
	if r, ok := o.(*clustersetv1alpha1.Reachability); ok {
		o = s.aged(r)
	}
	object, errs, ok := index.Convert(o.(runtime.Object))
	if !ok {
		return converted{}, fmt.Errorf("%T is not a kind that is watched", o)
	}
	return converted{id, object, errs}, nil
}

// Add implements cache.ReflectorStore.
func (s *store) Add(o any) error {
	began := time.Now()
	c, err := s.convert(o)
	if err != nil {
		return err
	}
	s.source.put(s.kind.kind, c.id, c.object, c.errs)
	applySeconds.Observe(time.Since(began).Seconds())
	s.observeChange(o)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store) Update(o any) error { return s.Add(o) }

// Delete implements cache.ReflectorStore.
func (s *store) Delete(o any) error {
	id, err := idOf(o)
	if err != nil {
		return err
	}
	s.source.delete(s.kind.kind, id)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *store) Replace(list []any, _ string) error {
	objects := make([]index.Object, 0, len(list))
	for i := range list {
		c, err := s.convert(list[i])
		if err != nil {
			return err
		}
		list[i] = nil // let the API object be collected
		s.source.report(s.kind.kind, c.id, c.errs)
		if c.object != nil {
			objects = append(objects, c.object)
		}
	}
	s.source.replace(s.kind.kind, objects)
	s.source.reachable(s.kind.kind, true)
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to resync: queries read what was put.
func (*store) Resync() error { return nil }

// observeChange measures the time from the cause of a change to the answers, if the object has a trigger time. It skips
// changes from before this server started: they would measure how long the server was down.
func (s *store) observeChange(o any) {
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	now := time.Now()
	if at, ok := api.RecentTriggerTime(slice.Annotations, now); ok && at.After(s.source.startedAt) {
		programmingSeconds.WithLabelValues(s.kind.kind.String()).Observe(now.Sub(at).Seconds())
	}
}

func idOf(o any) (index.ObjectID, error) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		namespace, name, err := cache.SplitMetaNamespaceKey(gone.Key)
		return index.ObjectID{Namespace: namespace, Name: name}, err
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return index.ObjectID{}, err
	}
	return index.ObjectID{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}
