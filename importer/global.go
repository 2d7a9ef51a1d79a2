package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
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
		if is, err = ensure(ctx, r.local, is, fresh, change); err != nil {
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

// globalWriter is a client whose writes of GlobalServices are answered with their metadata: to read all of one costs more than to write it.
type globalWriter struct {
	client.Client
	globals rest.Interface
}

func newGlobalWriter(c client.Client, config *rest.Config, connection *http.Client) (client.Client, error) {
	config = metadata.ConfigFor(config)
	config.GroupVersion, config.APIPath = &fabedgev1alpha1.GroupVersion, "/apis"
	globals, err := rest.RESTClientForConfigAndClient(config, connection)
	if err != nil {
		return nil, fmt.Errorf("make a client of GlobalServices: %w", err)
	}
	return &globalWriter{c, globals}, nil
}

// Create implements client.Client.
func (w *globalWriter) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if g, is := o.(*fabedgev1alpha1.GlobalService); is {
		return send(ctx, w.globals.Post(), g)
	}
	return w.Client.Create(ctx, o, opts...)
}

// Update implements client.Client.
func (w *globalWriter) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if g, is := o.(*fabedgev1alpha1.GlobalService); is {
		return send(ctx, w.globals.Put().Name(g.Name), g)
	}
	return w.Client.Update(ctx, o, opts...)
}

// send sends a GlobalService, which gets the metadata of the answer.
func send(ctx context.Context, request *rest.Request, g *fabedgev1alpha1.GlobalService) error {
	whole := *g
	whole.SetGroupVersionKind(fabedgev1alpha1.GroupVersion.WithKind("GlobalService"))
	body, err := json.Marshal(&whole)
	if err != nil {
		return fmt.Errorf("encode GlobalService: %w", err)
	}
	var is metav1.PartialObjectMetadata
	err = request.Namespace(g.Namespace).Resource("globalservices").Param("fieldManager", api.FieldManagerImporter).
		SetHeader("Accept", justMetadata).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Into(&is)
	if err == nil {
		g.ObjectMeta = is.ObjectMeta
	}
	return err
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

// globalKindCheck is how often the importer looks whether GlobalService has been installed. The kind is FabDNS's, and may come with it.
const globalKindCheck = 10 * time.Second

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

// errGlobalKind ends the agent, which begins anew with the kind.
var errGlobalKind = errors.New("GlobalService has been installed: the agent ends, and writes GlobalServices when it is started again")

// awaitGlobalKind returns an error once the kind is installed, and nil if ctx ends before.
func awaitGlobalKind(ctx context.Context, live client.Reader) error {
	if wait.PollUntilContextCancel(ctx, globalKindCheck, false, func(ctx context.Context) (bool, error) {
		has, _ := hasGlobalKind(ctx, live) // an API server that doesn't answer is asked again
		return has, nil
	}) != nil {
		return nil //nolint:nilerr // it is stopping
	}
	return errGlobalKind
}
