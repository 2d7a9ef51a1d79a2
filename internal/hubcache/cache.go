// Package hubcache is an agent's copy of the hub: its MemberClusters, and the records that the agent needs and may read. It is a
// cache.Cache for these three kinds, which all parts of the agent share.
//
// Each kind has one store, which client-go's Reflectors fill: one for all namespaces or, in a set with communities, one for the namespace of
// each peer. A Reflector lists, by a watch that begins with everything if the API server supports that, and watches from the list's resource
// version. After a bookmark or any other event it knows how far it has come (Passed). Of its own it lists again only when the hub doesn't
// have that resource version any more (410), and then asks for at least that version. It backs off for up to a minute when a watch fails,
// and can't be told to list again. Hence:
//
//   - A request that isn't answered is repeated, at the pace of rule C70 of docs/spec/control-plane.md, and the Reflector never learns of
//     it. A watch that could go on does go on.
//   - If other namespaces or peers are selected, or Relist is called, a Reflector is replaced by a new one. What the old one read stays until
//     the new one, and those that began with it, have listed their parts completely. A Replace compares the list with the store, so that only
//     differences become events.
//   - Lists are consistent reads. So a list with an earlier resource version than the one before is of a hub that went back in time.
//     Its epoch begins, like that of Relist, and everything is listed once more.
package hubcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// MaxNamespaces is how many namespaces are selected by name. A member with more reads everything: the selector is part of the request's URL,
// and the API server evaluates it for every record.
const MaxNamespaces = 100

// Cache is the copy. Create it with New.
type Cache struct {
	link    *link
	members *kind
	records []*kind // ExportedServices and ExportedEndpoints
	running sync.WaitGroup

	mu       sync.Mutex
	ctx      context.Context // of Start; nil before
	selected selection
}

// selection is what is wanted of the records.
type selection struct {
	selector   string
	peers      []string // namespaces, this cluster's first; nil: all, in one request
	namespaced bool     // whether SetNamespaces has been called
	peered     bool     // whether SetPeers has been called
}

var _ cache.Cache = &Cache{}

// New returns a cache of the hub that config describes. It sends no request before Start, and none for records before SetNamespaces and
// SetPeers have been called.
func New(config *rest.Config, over *http.Client, scheme *runtime.Scheme) (*Cache, error) {
	gv := clustersetv1alpha1.GroupVersion
	of, err := apiutil.RESTClientForGVK(gv.WithKind("MemberCluster"), true, false, config, serializer.NewCodecFactory(scheme), over)
	if err != nil {
		return nil, fmt.Errorf("cache of the hub: %w", err)
	}
	c := &Cache{link: newLink()}
	c.members = newKind(c, of, gv.WithResource("memberclusters"), &clustersetv1alpha1.MemberCluster{})
	c.records = []*kind{
		newKind(c, of, gv.WithResource("exportedservices"), &clustersetv1alpha1.ExportedService{}),
		newKind(c, of, gv.WithResource("exportedendpoints"), &clustersetv1alpha1.ExportedEndpoints{}),
	}
	return c, nil
}

// SetNamespaces selects the records of services in these namespaces, or all if there are more than MaxNamespaces or namespaces is nil.
func (c *Cache) SetNamespaces(namespaces []string) {
	selector := ""
	if namespaces != nil && len(namespaces) <= MaxNamespaces {
		names := slices.Sorted(slices.Values(namespaces))
		if len(names) == 0 {
			names = []string{"-"} // a value that no namespace has
		}
		selector = api.LabelExportedNamespace + " in (" + strings.Join(names, ",") + ")"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selected.namespaced, c.selected.selector = true, selector
	c.follow(false, false)
}

// SetPeers selects the records of these clusters, the member's own first. Nil selects all clusters, in one request for each kind.
func (c *Cache) SetPeers(clusters []string) {
	var peers []string
	for _, cluster := range clusters {
		peers = append(peers, api.MemberNamespace(cluster))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selected.peered, c.selected.peers = true, peers
	c.follow(false, false)
}

// SetQuota bounds how much memory the records of each cluster take here, this cluster's own apart; see DefaultQuota. changed is called when
// something of a cluster is left out, and when its records are read again because there is room. It must be called before Start.
func (c *Cache) SetQuota(bytes int, own string, changed func(cluster string, over bool)) {
	q := &quota{limit: bytes, own: api.MemberNamespace(own), changed: changed, again: func() { c.readAgain(false) }, used: map[string]int{}, over: map[string]*over{}}
	for _, k := range c.records {
		k.quota = q
	}
}

// readAgain lists everything again, in the same epoch. If the hub may have gone back, known resource versions may have other content.
func (c *Cache) readAgain(wentBack bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follow(true, wentBack)
}

// Relist reads everything again, in a new epoch: the hub has been restored from a backup.
func (c *Cache) Relist() {
	c.raise()
	c.readAgain(true)
}

// wentBack begins a new epoch, and then reads everything again.
func (c *Cache) wentBack() {
	c.raise()
	go c.readAgain(true)
}

func (c *Cache) raise() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.link.state.Epoch++
	select {
	case c.link.restored <- struct{}{}:
	default:
	}
}

// follow makes the feeds follow the selection; see kind.want. The caller has locked c.
func (c *Cache) follow(anew, suspect bool) {
	if c.ctx == nil || c.ctx.Err() != nil {
		return
	}
	c.members.want(c.ctx, []string{""}, "", anew, suspect)
	if !c.selected.namespaced || !c.selected.peered {
		return
	}
	namespaces := c.selected.peers
	if namespaces == nil {
		namespaces = []string{""}
	}
	for _, k := range c.records {
		k.want(c.ctx, namespaces, c.selected.selector, anew, suspect)
	}
}

// Start implements cache.Cache. It returns when ctx has ended.
func (c *Cache) Start(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	c.follow(false, false)
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock() // nothing is started any more
	defer c.mu.Unlock()
	c.running.Wait()
	return nil
}

// State returns what is known of the hub.
func (c *Cache) State() State {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.link.state
}

// Back receives an element when the hub answers again: it may have been restored.
func (c *Cache) Back() <-chan struct{} { return c.link.back }

// Restored receives an element when an epoch begins.
func (c *Cache) Restored() <-chan struct{} { return c.link.restored }

// Watched reports whether the hub is being watched. A watch that has just ended and is about to be opened again counts.
func (c *Cache) Watched() bool {
	return !slices.ContainsFunc(c.kinds(), func(k *kind) bool { return !k.watched() })
}

// Unread reports whether some records of a peer haven't been read, because the right to read them isn't there yet or the hub is slow. A
// missing record then doesn't mean that it was deleted.
func (c *Cache) Unread(cluster string) bool {
	return slices.ContainsFunc(c.records, func(k *kind) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		f := k.feeds[api.MemberNamespace(cluster)]
		return f != nil && !f.read
	})
}

// Passed reports whether the cache has all changes of a cluster's records up to a resource version, of any object on the hub that belongs to
// the current epoch: a record that is missing now was missing then. On a quiet hub it takes until the next bookmark, about a minute.
func (c *Cache) Passed(cluster, version string) bool {
	return !slices.ContainsFunc(c.records, func(k *kind) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		f := k.of(api.MemberNamespace(cluster))
		return f == nil || !f.read || f.version != version && !before(version, f.version)
	})
}

// Get implements client.Reader. Unlike other caches, it doesn't wait until the kind has been read: that is an error.
func (c *Cache) Get(_ context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	k, err := c.kindOf(reflect.TypeOf(o))
	if err != nil {
		return err
	}
	found, ok, err := k.store.GetByKey(toolscache.ObjectName(key).String())
	if err != nil || !ok {
		return apierrors.NewNotFound(k.resource.GroupResource(), key.Name)
	}
	if by := (&client.GetOptions{}).ApplyOptions(options); by.UnsafeDisableDeepCopy == nil || !*by.UnsafeDisableDeepCopy {
		found = found.(client.Object).DeepCopyObject()
	}
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

// List implements client.Reader, like Get. It knows namespaces, labels and limits.
func (c *Cache) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	k, err := c.kindOf(reflect.TypeOf(list))
	if err != nil {
		return err
	}
	by := (&client.ListOptions{}).ApplyOptions(options)
	if by.FieldSelector != nil {
		return fmt.Errorf("list %s: the cache of the hub has no fields", k.Name())
	}
	var all []any
	if by.Namespace == "" {
		all = k.store.List()
	} else {
		all, _ = k.store.ByIndex(toolscache.NamespaceIndex, by.Namespace) // the index exists
	}
	found := make([]runtime.Object, 0, len(all))
	for _, o := range all {
		o := o.(client.Object)
		if by.LabelSelector != nil && !by.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		if by.Limit > 0 && int64(len(found)) == by.Limit {
			break
		}
		if by.UnsafeDisableDeepCopy == nil || !*by.UnsafeDisableDeepCopy {
			found = append(found, o.DeepCopyObject())
		} else {
			found = append(found, o)
		}
	}
	return meta.SetList(list, found)
}

// kindOf returns the kind of an object or a list, once it has been read.
func (c *Cache) kindOf(of reflect.Type) (*kind, error) {
	for _, k := range c.kinds() {
		if kind := reflect.TypeOf(k.example); of == kind || of.Elem().Name() == kind.Elem().Name()+"List" {
			if !k.HasSynced() {
				return k, fmt.Errorf("%s: %w", k.Name(), ErrNotRead)
			}
			return k, nil
		}
	}
	return nil, fmt.Errorf("the cache of the hub has no %s", of)
}

// ErrNotRead is the error of a read of a kind that hasn't been read from the hub yet.
var ErrNotRead = errors.New("the hub hasn't been read yet")

func (c *Cache) kinds() []*kind { return append([]*kind{c.members}, c.records...) }

// GetInformer implements cache.Cache. It doesn't wait.
func (c *Cache) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	k, err := c.kindOf(reflect.TypeOf(o))
	if k == nil {
		return nil, err
	}
	return k, nil
}

// GetInformerForKind implements cache.Cache.
func (c *Cache) GetInformerForKind(_ context.Context, of schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	for _, k := range c.kinds() {
		if reflect.TypeOf(k.example).Elem().Name() == of.Kind {
			return k, nil
		}
	}
	return nil, fmt.Errorf("the cache of the hub has no %s", of)
}

// RemoveInformer implements cache.Cache, and does nothing.
func (c *Cache) RemoveInformer(context.Context, client.Object) error { return nil }

// IndexField implements cache.Cache. An Index is smaller.
func (c *Cache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return errors.New("the cache of the hub has no fields")
}

// WaitForCacheSync implements cache.Cache.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	return toolscache.WaitFor(ctx, "", c.members, c.records[0], c.records[1])
}
