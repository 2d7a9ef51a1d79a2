package packed

import (
	"encoding/binary"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// codec writes values of a type, and reads them. It has no names and no types in what it writes: only the same codec can read it.
type codec struct {
	write func(w *writer, v reflect.Value)
	read  func(r *reader, v reflect.Value)
}

// writer is what has been written. Equal strings are written once.
type writer struct {
	bytes []byte
	at    map[string]int // of strings
}

// writers are those that nobody uses.
var writers = sync.Pool{New: func() any { return &writer{at: map[string]int{}} }}

// many is how many strings a writer may have had to be used again: forgetting them takes as long for every later object.
const many = 1000

// done makes a writer empty, for others to use.
func (w *writer) done() {
	if len(w.at) > many {
		return
	}
	clear(w.at)
	w.bytes = w.bytes[:0]
	writers.Put(w)
}

// reader reads a block of memory. The strings that it returns are parts of it.
type reader struct {
	block string
	at    int
}

// known are the codecs of types: nil for a type that has none, or that is part of itself and whose codec is being made.
var (
	mu    sync.Mutex
	known = map[reflect.Type]*codec{}
)

// codecOf returns the codec of a type, or nil if it has parts that can't be written or set. The caller has locked mu.
func codecOf(t reflect.Type) *codec {
	c, ok := known[t]
	if !ok {
		known[t] = nil
		c = newCodec(t)
		known[t] = c
	}
	return c
}

func newCodec(t reflect.Type) *codec {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &codec{writeTime, readTime}
	case reflect.TypeFor[*bool]():
		return &codec{writeBoolPointer, readBoolPointer}
	case reflect.TypeFor[[]metav1.ManagedFieldsEntry]():
		return &codec{func(*writer, reflect.Value) {}, func(*reader, reflect.Value) {}}
	case reflect.TypeFor[map[string]string]():
		return &codec{writeStrings, readStrings}
	}
	switch t.Kind() {
	case reflect.String:
		return &codec{func(w *writer, v reflect.Value) { w.text(v.String()) }, func(r *reader, v reflect.Value) { v.SetString(r.text()) }}
	case reflect.Bool:
		return &codec{func(w *writer, v reflect.Value) { w.number(number(v.Bool())) }, func(r *reader, v reflect.Value) { v.SetBool(r.number() == 1) }}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &codec{func(w *writer, v reflect.Value) { w.signed(v.Int()) }, func(r *reader, v reflect.Value) { v.SetInt(r.signed()) }}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		return &codec{func(w *writer, v reflect.Value) { w.number(v.Uint()) }, func(r *reader, v reflect.Value) { v.SetUint(r.number()) }}
	case reflect.Pointer:
		return pointers(t)
	case reflect.Slice:
		return lists(t)
	case reflect.Map:
		return maps(t)
	case reflect.Struct:
		return structs(t)
	default:
		return nil
	}
}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func pointers(t reflect.Type) *codec {
	of := codecOf(t.Elem())
	if of == nil {
		return nil
	}
	return &codec{
		func(w *writer, v reflect.Value) {
			w.number(number(!v.IsNil()))
			if !v.IsNil() {
				of.write(w, v.Elem())
			}
		},
		func(r *reader, v reflect.Value) {
			if r.number() == 1 {
				v.Set(reflect.New(t.Elem()))
				of.read(r, v.Elem())
			}
		},
	}
}

// lists returns the codec of a slice. It keeps the difference between none and an empty one.
func lists(t reflect.Type) *codec {
	of := codecOf(t.Elem())
	if of == nil {
		return nil
	}
	return &codec{
		func(w *writer, v reflect.Value) {
			w.length(v)
			for i := range v.Len() {
				of.write(w, v.Index(i))
			}
		},
		func(r *reader, v reflect.Value) {
			n := r.length()
			if n < 0 {
				return
			}
			v.Set(reflect.MakeSlice(t, n, n))
			for i := range n {
				of.read(r, v.Index(i))
			}
		},
	}
}

func maps(t reflect.Type) *codec {
	key, of := codecOf(t.Key()), codecOf(t.Elem())
	if key == nil || of == nil {
		return nil
	}
	return &codec{
		func(w *writer, v reflect.Value) {
			w.length(v)
			for all := v.MapRange(); all.Next(); {
				key.write(w, all.Key())
				of.write(w, all.Value())
			}
		},
		func(r *reader, v reflect.Value) {
			n := r.length()
			if n < 0 {
				return
			}
			v.Set(reflect.MakeMapWithSize(t, n))
			for range n {
				k, e := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
				key.read(r, k)
				of.read(r, e)
				v.SetMapIndex(k, e)
			}
		},
	}
}

func structs(t reflect.Type) *codec {
	fields := make([]*codec, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return nil
		}
		if fields[i] = codecOf(t.Field(i).Type); fields[i] == nil {
			return nil
		}
	}
	return &codec{
		func(w *writer, v reflect.Value) {
			for i, f := range fields {
				f.write(w, v.Field(i))
			}
		},
		func(r *reader, v reflect.Value) {
			for i, f := range fields {
				f.read(r, v.Field(i))
			}
		},
	}
}

func writeTime(w *writer, v reflect.Value) {
	t := v.Interface().(time.Time)
	w.number(number(!t.IsZero()))
	if !t.IsZero() {
		w.signed(t.Unix())
		w.signed(int64(t.Nanosecond()))
	}
}

// readTime returns local times, as decoded ones are.
func readTime(r *reader, v reflect.Value) {
	if r.number() == 1 {
		seconds := r.signed()
		v.Set(reflect.ValueOf(time.Unix(seconds, r.signed())))
	}
}

var yes, no = true, false

func writeBoolPointer(w *writer, v reflect.Value) {
	p := v.Interface().(*bool)
	if p == nil {
		w.number(0)
		return
	}
	w.number(1 + number(*p))
}

// readBoolPointer allocates nothing: nobody changes what a cache returns.
func readBoolPointer(r *reader, v reflect.Value) {
	switch r.number() {
	case 1:
		v.Set(reflect.ValueOf(&no))
	case 2:
		v.Set(reflect.ValueOf(&yes))
	}
}

func writeStrings(w *writer, v reflect.Value) {
	w.length(v)
	for key, value := range v.Interface().(map[string]string) {
		w.key(key)
		w.text(value)
	}
}

func readStrings(r *reader, v reflect.Value) {
	n := r.length()
	if n < 0 {
		return
	}
	m := make(map[string]string, n)
	for range n {
		key := r.key()
		m[key] = r.text()
	}
	v.Set(reflect.ValueOf(m))
}

// keys are keys of labels and annotations, which most objects have in common, by number.
var keys = struct {
	mu  sync.RWMutex
	of  []string
	all map[string]uint64
}{all: map[string]uint64{}}

// maxKeys and longestKey bound the keys that have numbers: anybody can write others.
const maxKeys, longestKey = 512, 80

// keyNumber returns the number of a key, 0 if it has none.
func keyNumber(key string) uint64 {
	keys.mu.RLock()
	n, known := keys.all[key]
	full := len(keys.of) == maxKeys
	keys.mu.RUnlock()
	if known || full || len(key) > longestKey {
		return n
	}
	keys.mu.Lock()
	defer keys.mu.Unlock()
	if n, known := keys.all[key]; known || len(keys.of) == maxKeys {
		return n
	}
	key = strings.Clone(key)
	keys.of = append(keys.of, key)
	keys.all[key] = uint64(len(keys.of))
	return keys.all[key]
}

// key writes a key of a map: its number or, after a 0, itself.
func (w *writer) key(key string) {
	n := keyNumber(key)
	w.number(n)
	if n == 0 {
		w.text(key)
	}
}

func (r *reader) key() string {
	n := r.number()
	if n == 0 {
		return r.text()
	}
	keys.mu.RLock()
	defer keys.mu.RUnlock()
	return keys.of[n-1]
}

func (w *writer) number(n uint64) { w.bytes = binary.AppendUvarint(w.bytes, n) }

func (w *writer) signed(n int64) { w.bytes = binary.AppendVarint(w.bytes, n) }

// length writes the length of a slice or map, 0 if it is nil.
func (w *writer) length(v reflect.Value) {
	if v.IsNil() {
		w.number(0)
		return
	}
	w.number(uint64(v.Len()) + 1) //nolint:gosec // lengths aren't negative
}

// shortest is the length of the shortest string that is worth a reference to an equal one.
const shortest = 3

// text writes a string: twice its length and the string or, if the block has it, one more than twice its place.
func (w *writer) text(s string) {
	if at, known := w.at[s]; known {
		w.number(uint64(at)<<1 | 1) //nolint:gosec // places aren't negative
		return
	}
	if len(s) >= shortest {
		w.at[s] = len(w.bytes)
	}
	w.number(uint64(len(s)) << 1)
	w.bytes = append(w.bytes, s...)
}

func (r *reader) number() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.block[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (r *reader) signed() int64 {
	n := r.number()
	return int64(n>>1) ^ -int64(n&1) //nolint:gosec // as encoding/binary does it
}

// length returns -1 for nil.
func (r *reader) length() int { return int(r.number()) - 1 } //nolint:gosec // it was a length

func (r *reader) text() string {
	n := int(r.number()) //nolint:gosec // it was a length or a place
	if n&1 == 1 {
		there := reader{block: r.block, at: n >> 1}
		return there.text()
	}
	from := r.at
	r.at += n >> 1
	return r.block[from:r.at]
}
