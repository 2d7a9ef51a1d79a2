package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/policy"
)

// A change of one endpoint writes all of a GlobalService, and the watch would bring them a second time. So the cache has only its metadata, and
// what was written isn't kept.

// globalMetadata is what the cache has of a GlobalService.
func globalMetadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalService"))
	return m
}

// globalHere returns the metadata of the GlobalService of a service, nil if there is none.
func (r *reconciler) globalHere(ctx context.Context, key types.NamespacedName) (*fabedgev1alpha1.GlobalService, error) {
	is := globalMetadata()
	if found, err := get(ctx, r.local, key.Namespace, key.Name, is, client.UnsafeDisableDeepCopy); err != nil || !found {
		return nil, err
	}
	return &fabedgev1alpha1.GlobalService{ObjectMeta: is.ObjectMeta}, nil
}

func knownOf(g *fabedgev1alpha1.GlobalService) knownGlobal {
	return knownGlobal{version: g.ResourceVersion, hash: hashOfGlobal(g), status: g.Status}
}

var hashSeed = maphash.MakeSeed()

// hashOfGlobal identifies what the importer writes of a GlobalService, apart from the status.
func hashOfGlobal(g *fabedgev1alpha1.GlobalService) uint64 {
	var hash maphash.Hash
	hash.SetSeed(hashSeed)
	encoder := json.NewEncoder(&hash)
	for _, key := range policy.Written {
		_ = encoder.Encode(g.Annotations[key]) // a string, and strings and numbers
	}
	_ = encoder.Encode(&g.Spec)
	return hash.Sum64()
}

// lastGlobal returns what is known of a GlobalService of ours whose metadata the cache has. One that isn't as it was written last is read.
func (r *reconciler) lastGlobal(ctx context.Context, is *fabedgev1alpha1.GlobalService) (known knownGlobal, err error) {
	if known = r.memories.get(client.ObjectKeyFromObject(is)).global; known.version == is.ResourceVersion || known.replaced == is.ResourceVersion {
		is.ResourceVersion = known.version
		return known, nil
	}
	g, err := getLive(ctx, r.local, is)
	if err != nil {
		return known, err
	}
	is.ObjectMeta = g.ObjectMeta
	return knownOf(g), nil
}

// applyGlobal writes the GlobalService if it differs, or deletes one that is no longer wanted. It is no failure that the kind is gone.
func (r *reconciler) applyGlobal(ctx context.Context, out desired.Output, cur desired.Current) error {
	service, is, want := client.ObjectKeyFromObject(out.ServiceImport), cur.Global, out.Global
	if want == nil {
		r.report.truncated(service, 0)
		if is != nil {
			return r.local.remove(ctx, is)
		}
		return nil
	}
	err := r.writeGlobal(ctx, is, want)
	if isMissing(err) {
		return nil
	}
	if err == nil {
		r.report.truncated(service, int(want.Status.TruncatedEndpoints))
	}
	return err
}

// writeGlobal creates a GlobalService, or writes what differs of one that exists.
func (r *reconciler) writeGlobal(ctx context.Context, is, want *fabedgev1alpha1.GlobalService) (err error) {
	var known knownGlobal
	if is != nil && desired.Owned(is) {
		if known, err = r.lastGlobal(ctx, is); err != nil {
			return err
		}
		is = &fabedgev1alpha1.GlobalService{ObjectMeta: is.ObjectMeta, Status: known.status}
	}
	if hash := hashOfGlobal(want); known.hash != hash {
		change := func(g *fabedgev1alpha1.GlobalService) {
			g.Labels = labels.Merge(g.Labels, want.Labels, nil)
			g.Annotations = labels.Merge(g.Annotations, want.Annotations, policy.Written)
			g.Spec = want.Spec
		}
		fresh := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
		if is, err = put(ctx, r.local, is, fresh, change, unequal); err != nil {
			return err
		}
		known = knownGlobal{is.ResourceVersion, known.version, hash, is.Status}
	}
	r.memories.get(client.ObjectKeyFromObject(want)).global = known
	if equality.Semantic.DeepEqual(known.status, want.Status) {
		return nil
	}
	return ensureStatus(ctx, r.local, is, func(g *fabedgev1alpha1.GlobalService) { g.Status = want.Status })
}

// justMetadata asks for an object's metadata in place of the object, as protobuf if the API server can.
const justMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// briefWriter is a client whose writes of GlobalServices and EndpointSlices are answered with their metadata: to read all of one costs more than to
// write it.
type briefWriter struct {
	client.Client
	rest rest.Interface
}

func newBriefWriter(c client.Client, config *rest.Config, connection *http.Client) (client.Client, error) {
	config = metadata.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{} // the paths say which
	brief, err := rest.RESTClientForConfigAndClient(config, connection)
	if err != nil {
		return nil, fmt.Errorf("make a client of GlobalServices and EndpointSlices: %w", err)
	}
	return &briefWriter{c, brief}, nil
}

// Create implements client.Client.
func (w *briefWriter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if sent, err := w.send(ctx, w.rest.Post(), o, ""); sent {
		return err
	}
	return w.Client.Create(ctx, o, opts...)
}

// Update implements client.Client.
func (w *briefWriter) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if sent, err := w.send(ctx, w.rest.Put(), o, o.GetName()); sent {
		return err
	}
	return w.Client.Update(ctx, o, opts...)
}

var protobufs = protobuf.NewSerializer(nil, nil)

// send sends an object of the two kinds, which gets the metadata of the answer.
func (w *briefWriter) send(ctx context.Context, request *rest.Request, o client.Object, name string) (sent bool, err error) {
	var of schema.GroupVersion
	var resource, content string
	var body []byte
	var to *metav1.ObjectMeta
	switch o := o.(type) {
	case *fabedgev1alpha1.GlobalService:
		whole := *o
		of, resource, content, to = fabedgev1alpha1.GroupVersion, "globalservices", runtime.ContentTypeJSON, &o.ObjectMeta
		whole.SetGroupVersionKind(of.WithKind("GlobalService"))
		body, err = json.Marshal(&whole)
	case *discoveryv1.EndpointSlice:
		whole := *o
		of, resource, content, to = discoveryv1.SchemeGroupVersion, "endpointslices", runtime.ContentTypeProtobuf, &o.ObjectMeta
		whole.SetGroupVersionKind(of.WithKind("EndpointSlice"))
		body, err = runtime.Encode(protobufs, &whole)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("encode %s: %w", kindOf(o), err)
	}
	var is metav1.PartialObjectMetadata
	err = request.AbsPath("/apis", of.String(), "namespaces", to.Namespace, resource, name).Param("fieldManager", api.FieldManagerImporter).
		SetHeader("Accept", justMetadata).SetHeader("Content-Type", content).Body(body).Do(ctx).Into(&is)
	if err == nil {
		*to = is.ObjectMeta
	}
	return true, err
}

// globalsPage is how many GlobalServices are read per request. Each may be a MiB, and a thief can make many of them that large.
const globalsPage = 20

// readGlobals reads all GlobalServices of ours, page by page: the importer is about to compare each with what it should be. There is none if the kind
// isn't installed.
func readGlobals(ctx context.Context, l *local, memories *memories) error {
	for next := ""; ; {
		var page fabedgev1alpha1.GlobalServiceList
		err := l.live.List(ctx, &page, client.MatchingLabels(desired.Labels()), client.Limit(globalsPage), client.Continue(next))
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list GlobalServices: %w", err)
		}
		for i := range page.Items {
			g := &page.Items[i]
			memories.get(client.ObjectKeyFromObject(g)).global = knownOf(g)
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// hasGlobalKind reports whether this cluster has the kind GlobalService.
func hasGlobalKind(ctx context.Context, live client.Reader) (bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalServiceList"))
	err := live.List(ctx, &list, client.Limit(1))
	if err != nil && !isMissing(err) {
		return false, fmt.Errorf("list GlobalServices: %w", err)
	}
	return err == nil, nil
}

// isMissing reports whether an object or its kind doesn't exist any more.
func isMissing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
