// Package packed keeps the objects of a cache as blocks of bytes, and decodes them when they are read.
//
// An agent of 250 clusters holds more than a hundred thousand objects, and reads a few of them at each change. As Go's structs, an object of ten
// endpoints is thirty blocks of memory of 4 kB in all, which each garbage collection visits; packed it is one of 400 bytes, without pointers.
// To decode it takes four microseconds of processor time, and to encode it five.
package packed

import (
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// object is a packed object, without its managed fields, which nothing reads: the beginning of a block of memory without pointers.
type object struct {
	of   uint32 // index in kinds
	size uint32 // of what follows
}

// header is the size of an object without what follows.
const header = unsafe.Sizeof(object{})

// block returns what was written. Strings that are parts of it keep the object.
func (o *object) block() string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(o), header)), o.size) //nolint:gosec // newObject made it that long
}

func newObject(of uint32, block []byte) *object {
	words := make([]uint64, (int(header)+len(block)+7)/8)                    // aligned, as bytes need not be
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words)) //nolint:gosec // the same memory
	copy(memory[header:], block)
	o := (*object)(unsafe.Pointer(&words[0])) //nolint:gosec // which has room for it
	o.of, o.size = of, uint32(len(block))     //nolint:gosec // an API server's objects are a few MiB at most
	return o
}

// kind is a type of objects.
type kind struct {
	object reflect.Type // a struct, which begins with TypeMeta and ObjectMeta
	fields []*codec
}

// kinds are the kinds that can be packed. kindsOf has their indexes by type, -1 for other types. Who changes them has locked mu.
var (
	kinds   atomic.Pointer[[]*kind]
	kindsOf = map[reflect.Type]int{}
)

func init() { kinds.Store(&[]*kind{}) }

// kindOf returns the kind of an object and its index, or nil if it can't be packed.
func kindOf(o any) (*kind, uint32) {
	mu.Lock()
	defer mu.Unlock()
	t := reflect.TypeOf(o)
	i, known := kindsOf[t]
	if !known {
		i = -1
		if k := newKind(t); k != nil {
			all := append(slices.Clone(*kinds.Load()), k)
			i = len(all) - 1
			kinds.Store(&all)
		}
		kindsOf[t] = i
	}
	if i < 0 {
		return nil, 0
	}
	return (*kinds.Load())[i], uint32(i) //nolint:gosec // not negative
}

func (o *object) kind() *kind { return (*kinds.Load())[o.of] }

func newKind(t reflect.Type) *kind {
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || codecOf(t.Elem()) == nil {
		return nil
	}
	k := &kind{object: t.Elem()}
	if k.object.NumField() < 2 || k.object.Field(0).Type != reflect.TypeFor[metav1.TypeMeta]() || k.object.Field(1).Type != reflect.TypeFor[metav1.ObjectMeta]() {
		return nil
	}
	for i := range k.object.NumField() {
		k.fields = append(k.fields, codecOf(k.object.Field(i).Type))
	}
	return k
}

// Object is one object of type T that is kept packed, as those of a cache are. The zero value holds none.
type Object[T comparable] struct{ is any }

// Of packs an object.
func Of[T comparable](o T) Object[T] { return Object[T]{pack(o)} }

// Get returns the object, which must not be changed, or T's zero value if there is none.
func (o Object[T]) Get() (t T) {
	if o.is != nil {
		t = unpack(o.is).(T)
	}
	return t
}

// pack packs an object. It returns as it is what can't be packed: tombstones, and kinds with fields that reflection can't set.
func pack(o any) any {
	if _, is := o.(*object); is {
		return o
	}
	k, of := kindOf(o)
	if k == nil {
		return o
	}
	w := writers.Get().(*writer)
	defer w.done()
	v := reflect.ValueOf(o).Elem()
	for i, f := range k.fields {
		f.write(w, v.Field(i))
	}
	return newObject(of, w.bytes)
}

// decoded is what an object was unpacked to. It keeps neither.
type decoded struct {
	at uintptr // the object's address, which is compared first
	of weak.Pointer[object]
	to weak.Pointer[metav1.TypeMeta] // its first field
}

// recent are objects that were unpacked last, in rows by their address: reconciling a service after a change reads its objects three times, and
// a service of 250 clusters has 750.
var recent [1024]struct {
	places [8]atomic.Pointer[decoded]
	next   atomic.Uint32 // the place that is taken next if all are in use
}

// find returns the place of an object in its row, or one that it may have, and what it was unpacked to; nil if nobody has that.
func (o *object) find() (place uint32, to *metav1.TypeMeta) {
	row := &recent[o.row()]
	for i := range row.places {
		if d := row.places[i].Load(); d != nil && d.at == uintptr(unsafe.Pointer(o)) && d.of.Value() == o { //nolint:gosec // only a number
			return uint32(i), d.to.Value() //nolint:gosec // below 8
		}
	}
	for i := range row.places {
		if d := row.places[i].Load(); d == nil || d.to.Value() == nil {
			return uint32(i), nil //nolint:gosec // below 8
		}
	}
	return row.next.Add(1) % uint32(len(row.places)), nil
}

// remember records in a place of its row what an object was unpacked to.
func (o *object) remember(place uint32, to *metav1.TypeMeta) {
	recent[o.row()].places[place].Store(&decoded{uintptr(unsafe.Pointer(o)), weak.Make(o), weak.Make(to)}) //nolint:gosec // only a number
}

func (o *object) row() uint64 {
	const golden = 0x9E3779B97F4A7C15
	return uint64(uintptr(unsafe.Pointer(o))) * golden >> (64 - 10) //nolint:gosec // only a number
}

// unpack returns an object as it was before it was packed, for those that were unpacked recently the same one. Its strings are parts of the block,
// also that of its resource version: the importer identifies versions of an object by where it is (desired.Version).
func unpack(o any) any {
	p, is := o.(*object)
	if !is {
		return o
	}
	k := p.kind()
	place, to := p.find()
	if to != nil {
		return reflect.NewAt(k.object, unsafe.Pointer(to)).Interface() //nolint:gosec // TypeMeta is the first field
	}
	v := reflect.New(k.object)
	r := reader{block: p.block()}
	for i, f := range k.fields {
		f.read(&r, v.Elem().Field(i))
	}
	p.remember(place, v.Elem().Field(0).Addr().Interface().(*metav1.TypeMeta))
	return v.Interface()
}

// GetObjectMeta implements metav1.ObjectMetaAccessor: client-go asks each object in a store for its name, namespace and resource version.
func (o *object) GetObjectMeta() metav1.Object {
	var m struct {
		metav1.TypeMeta
		metav1.ObjectMeta
	}
	r, v := reader{block: o.block()}, reflect.ValueOf(&m).Elem()
	for i, f := range o.kind().fields[:2] {
		f.read(&r, v.Field(i))
	}
	return &m.ObjectMeta
}
