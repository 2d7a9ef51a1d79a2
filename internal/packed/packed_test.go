package packed

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/randfill"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// those are the kinds of which an agent has many.
func those() []client.Object {
	return []client.Object{
		&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.MemberCluster{},
		&discoveryv1.EndpointSlice{}, &fabedgev1alpha1.GlobalService{}, &mcsv1beta1.ServiceImport{}, &mcsv1alpha1.ServiceImport{},
		&mcsv1beta1.ServiceExport{}, &mcsv1alpha1.ServiceExport{}, &corev1.Service{}, &corev1.Namespace{}, &metav1.PartialObjectMetadata{},
	}
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(t *time.Time, c randfill.Continue) { *t = time.Unix(c.Int63n(1<<33), c.Int63n(1e9)) },
		func(all *[]metav1.ManagedFieldsEntry, _ randfill.Continue) { *all = nil },
		func(s *string, c randfill.Continue) { *s = strings.Repeat(fmt.Sprint("é", c.Intn(9)), c.Intn(99)) },
	)
}

// A packed object is what it was, with all the fields that its kind has or will have.
func TestPackingChangesNothing(t *testing.T) {
	for _, example := range those() {
		for n := range int64(100) {
			o := reflect.New(reflect.TypeOf(example).Elem()).Interface().(client.Object)
			if n > 0 {
				filler(n).Fill(o)
			}
			block := pack(o)
			if _, is := block.(*object); !is {
				t.Fatalf("a %T isn't packed", o)
			}
			if got := unpack(block); !reflect.DeepEqual(got, o) {
				t.Fatalf("a %T (seed %d) was\n%+v\nis\n%+v", o, n, o, got)
			}
			if got := block.(*object).GetObjectMeta(); got.GetName() != o.GetName() || got.GetNamespace() != o.GetNamespace() || got.GetResourceVersion() != o.GetResourceVersion() {
				t.Fatalf("a %T (seed %d): its metadata are %+v", o, n, got)
			}
		}
	}
}

// Managed fields are dropped. What can't be packed stays as it is.
func TestWhatIsNotPacked(t *testing.T) {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	if got := unpack(pack(o)).(*corev1.Service); got.Name != "web" || got.ManagedFields != nil {
		t.Errorf("got %+v", got.ObjectMeta)
	}
	for _, o := range []any{nil, "a text", &corev1.Node{}, &corev1.Pod{}, toolscache.DeletedFinalStateUnknown{Key: "a", Obj: o}, &struct{ Name string }{"a"}} {
		if got := pack(o); !reflect.DeepEqual(got, o) || !reflect.DeepEqual(unpack(got), o) {
			t.Errorf("%T became %T", o, got)
		}
	}
	once := pack(o)
	if pack(once) != once {
		t.Error("it is packed twice")
	}
}

// Each time that a version of an object is read, its resource version is in the same memory, in which no other object has one.
func TestAVersionHasItsMemory(t *testing.T) {
	at := func(o any) *byte { return unsafe.StringData(unpack(o).(client.Object).GetResourceVersion()) }
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "17", ResourceVersion: "17"}}
	one, other := pack(service), pack(service)
	first := at(one)
	runtime.GC() // it isn't kept unpacked
	if again := at(one); again != first || again == at(other) {
		t.Error("a resource version isn't where it should be")
	}
}

// However many objects are read at the same time, more than are remembered, each is itself.
func TestObjectsAreNotMistaken(t *testing.T) {
	all := slices10(2 * len(recent) * len(recent[0].places))
	for i := range all {
		all[i] = pack(all[i])
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2 * len(all) {
				n := (i * 7) % len(all)
				if got := unpack(all[n]).(*discoveryv1.EndpointSlice).ResourceVersion; got != fmt.Sprint(n) {
					t.Errorf("object %d is object %s", n, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// slices10 returns n slices of ten endpoints.
func slices10(n int) (all []any) {
	for i := range n {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("web-%d", i), UID: "0123", ResourceVersion: fmt.Sprint(i), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("web-", i)},
			},
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
		}
		for j := range 10 {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.0.%d.%d", i, j)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, Zone: new("beijing-a"),
			})
		}
		all = append(all, s)
	}
	return all
}

// An object of ten endpoints takes a few hundred bytes in one block.
func TestPackedIsSmall(t *testing.T) {
	const n = 1000
	all := slices10(n)
	var before, after runtime.MemStats
	for range 3 { // what other tests left goes in steps: objects, then the weak pointers to them
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	kept := make([]any, n)
	for i := range all {
		kept[i] = pack(all[i])
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	bytes, objects := (after.HeapAlloc-before.HeapAlloc)/n, (after.HeapObjects-before.HeapObjects)/n
	t.Logf("%d bytes in %d objects", bytes, objects)
	if bytes > 600 || objects > 1 {
		t.Errorf("%d bytes in %d objects, want at most 600 in 1", bytes, objects)
	}
	runtime.KeepAlive(kept)
}

// A store of packed objects is like one of others: reads, indexes that are there before and after the objects, and changes.
func TestIndexerIsLikeOthers(t *testing.T) {
	byService := func(o any) ([]string, error) {
		return []string{o.(*discoveryv1.EndpointSlice).Labels[discoveryv1.LabelServiceName]}, nil
	}
	of := func() toolscache.Indexers {
		return toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	}
	ours, theirs := NewIndexer(toolscache.MetaNamespaceKeyFunc, of()), toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, of())
	all := slices10(20)
	for i := range 1000 {
		o := all[rand.N(len(all))].(*discoveryv1.EndpointSlice)
		for _, store := range []toolscache.Indexer{ours, theirs} {
			var err error
			switch i % 7 {
			case 0:
				err = store.Delete(o)
			case 1:
				err = store.Add(o)
			case 2:
				if i == 2 {
					err = store.AddIndexers(toolscache.Indexers{"service": byService})
				}
			case 3:
				if i%91 == 3 {
					err = store.Replace(all[:i%len(all)], "")
				}
			default:
				changed := o.DeepCopy()
				changed.Labels[discoveryv1.LabelServiceName] = fmt.Sprint("web-", i%3)
				err = store.Update(changed)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if i < 2 {
			continue
		}
		is, inOurs, _ := ours.Get(o)
		was, inTheirs, _ := theirs.Get(o)
		byKey, _, _ := ours.GetByKey("shop/" + o.Name)
		if inOurs != inTheirs || inOurs && !equality.Semantic.DeepEqual(is, was) || !equality.Semantic.DeepEqual(byKey, is) {
			t.Fatalf("after %d changes %s is %v, in another store %v", i, o.Name, is, was)
		}
		for _, read := range []func(toolscache.Indexer) []any{
			toolscache.Indexer.List,
			func(s toolscache.Indexer) []any { all, _ := s.ByIndex("service", "web-1"); return all },
			func(s toolscache.Indexer) []any { all, _ := s.ByIndex(toolscache.NamespaceIndex, "shop"); return all },
			func(s toolscache.Indexer) []any { all, _ := s.Index("service", o); return all },
		} {
			if is, want := names(read(ours)), names(read(theirs)); !slices.Equal(is, want) {
				t.Fatalf("after %d changes: %v, in another store %v", i, is, want)
			}
		}
	}
}

func names(all []any) (names []string) {
	for _, o := range all {
		names = append(names, o.(*discoveryv1.EndpointSlice).Name)
	}
	slices.Sort(names)
	return names
}

func BenchmarkPack(b *testing.B) {
	all := slices10(1)
	for b.Loop() {
		pack(all[0])
	}
}

func BenchmarkUnpack(b *testing.B) {
	all := slices10(20000) // none is remembered until it is its turn again
	for i := range all {
		all[i] = pack(all[i])
	}
	for i := 0; b.Loop(); i++ {
		unpack(all[i%len(all)])
	}
}
