package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// FuzzIndexEqualsOracle decodes bytes into edits of an Index. After each edit, the Snapshot must equal the oracle's result, the serial
// must have grown if an answer changed, and every older Snapshot must be unchanged.
func FuzzIndexEqualsOracle(f *testing.F) {
	for seed := range uint64(24) {
		f.Add(randomBytes(seed, 300))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1000 {
			t.Skip("long inputs repeat themselves")
		}
		e := newEditor(t, data)
		for len(e.data) > 0 && !t.Failed() {
			e.edit()
		}
		e.checkHistory()
	})
}

// Makes 6,000 edits in the same way, outside of fuzzing.
func TestIndexEqualsOracle(t *testing.T) {
	edits := 6000
	if testing.Short() {
		edits = 1000
	}
	for seed := uint64(1); edits > 0 && !t.Failed(); seed++ {
		e := newEditor(t, randomBytes(seed, 20000))
		n := 0
		for ; n < 400 && len(e.data) > 0 && !t.Failed(); n++ {
			e.edit()
		}
		e.checkHistory()
		edits -= n
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// editor makes objects from a few values for each field, so that they collide in every way.
type editor struct {
	t     *testing.T
	data  []byte
	now   time.Time
	index *Index
	world *world

	edits     int
	portions  bool // the edit has several objects, and may cause several Snapshots
	published bool
	last      *Snapshot
	facts     map[string]string // content of the last Snapshot, by service and namespace
	seen      map[string]string // the part of it that queries can observe
	history   []record
	given     map[Object]string
}

// record is a Snapshot and its original content.
type record struct {
	snapshot *Snapshot
	serial   uint32
	facts    map[string]string
}

// edit makes one change to the Index and the world, and checks the result.
func (e *editor) edit() {
	e.now = e.now.Add(time.Duration(e.roll(5)-2) * time.Second) // clocks may be set back, too
	op := e.roll(16)
	e.portions = op == 8 || op == 9 || op == 13
	switch op {
	default:
		o := e.object(Kinds[e.roll(int(kinds))])
		e.index.Put(o)
		e.world.put(o)
	case 8, 9:
		objects := make([]Object, 1+e.roll(5))
		for i := range objects {
			objects[i] = e.object(Kinds[e.roll(int(kinds))])
			e.world.put(objects[i])
		}
		e.index.Put(objects...)
	case 10, 11, 12:
		kind := Kinds[e.roll(int(kinds))]
		id := e.object(kind).ID()
		e.index.Delete(kind, id)
		e.world.remove(kind, id)
	case 13:
		e.replace(Kinds[e.roll(int(kinds))])
	case 14:
		e.again(Kinds[e.roll(int(kinds))])
	case 15:
		e.index.Publish()
		e.published = true
	}
	e.check()
}

// replace keeps some of the objects of a kind, drops the others and adds some.
func (e *editor) replace(kind Kind) {
	all := map[ObjectID]Object{}
	none := e.roll(3) == 0 // as if a CustomResourceDefinition were deleted
	for _, id := range e.world.ids(kind) {
		if !none && e.roll(3) > 0 {
			all[id] = e.world.objects[kind][id]
		}
		e.world.remove(kind, id)
	}
	for range e.roll(4) {
		o := e.object(kind)
		all[o.ID()] = o
	}
	objects := make([]Object, 0, len(all))
	for _, o := range all {
		objects = append(objects, o)
		e.world.put(o)
	}
	e.index.Replace(kind, objects)
}

// again puts a copy of an existing object, like a watch that starts again.
func (e *editor) again(kind Kind) {
	ids := e.world.ids(kind)
	if len(ids) == 0 {
		return
	}
	o := clone(e.world.objects[kind][pick(e, ids)])
	e.given[o] = describe(o)
	e.world.put(o)
	e.index.Put(o)
}

func (e *editor) check() {
	e.t.Helper()
	for _, kind := range Kinds {
		if got, want := e.index.Count(kind), e.world.count(kind); got != want {
			e.t.Errorf("Count(%s) = %d, want %d", kind, got, want)
		}
	}
	snapshot := e.index.Snapshot()
	if (snapshot != nil) != e.published {
		e.t.Fatalf("Snapshot = %v, want one after Publish only", snapshot)
	}
	if snapshot == nil {
		return
	}
	wantFacts, wantSeen := e.want()
	gotFacts := snapshotFacts(e.t, snapshot)
	compareFacts(e.t, "snapshot", gotFacts, wantFacts)
	if e.edits%4 == 0 { // it takes as long as the rest
		compareFacts(e.t, "from a zone", zonalFacts(e.t, snapshot), e.wantFromZones())
	}
	e.checkSerial(snapshot, wantFacts, wantSeen)
	e.last, e.facts, e.seen = snapshot, wantFacts, wantSeen
	e.edits++
	if e.edits%8 == 0 {
		e.history = append(e.history, record{snapshot, snapshot.Serial(), gotFacts})
	}
}

// want returns the oracle's facts for every service and namespace: all of them, and the part that queries can observe.
func (e *editor) want() (all, seen map[string]string) {
	all, seen = map[string]string{}, map[string]string{}
	for _, ns := range editNamespaces {
		if e.world.hasNamespace(ns) {
			all[ns], seen[ns] = "a namespace", "a namespace"
		}
		for _, name := range editServices {
			id := ObjectID{ns, name}
			mcs, global := e.world.mcs(id), e.world.global(id)
			key := name + "." + ns
			if mcs.exists || global.exists {
				all[key] = "mcs " + mcs.String() + "\nglobal " + global.String() + e.world.inputsText(id)
			}
			seen[key] = "mcs " + mcs.seen(false) + "\nglobal " + global.seen(true)
		}
	}
	return all, seen
}

// wantFromZones returns the oracle's facts for names with a zone, by name.
func (e *editor) wantFromZones() map[string]string {
	all := map[string]string{}
	for _, ns := range editNamespaces {
		for _, name := range editServices {
			id := ObjectID{ns, name}
			for d, f := range map[Dialect]facts{MCS: e.world.mcs(id), Global: e.world.global(id)} {
				if f.headless && f.live {
					for front, records := range f.zones {
						all[d.String()+" "+front+"._zone."+name+"."+ns] = records
					}
				}
			}
		}
	}
	return all
}

// checkSerial expects the serial to grow when queries can observe a change, and to stay when nothing differs.
// TestSerialIgnoresWhatNoQuerySees covers the cases in between, which are changes that queries can't observe.
func (e *editor) checkSerial(now *Snapshot, all, seen map[string]string) {
	e.t.Helper()
	if e.last == nil {
		return
	}
	was, is := e.last.Serial(), now.Serial()
	visible, different := differs(e.seen, seen), differs(e.facts, all)
	switch {
	case visible && is <= was:
		e.t.Errorf("serial %d after %d, though an answer changed", is, was)
	case !visible && !different && is != was && !e.portions:
		e.t.Errorf("serial %d after %d, though nothing changed", is, was)
	}
}

// differs compares facts, not objects, so a copy of an object is no change.
func differs(a, b map[string]string) bool {
	return !maps.EqualFunc(a, b, func(a, b string) bool {
		a, _, _ = strings.Cut(a, "\nfrom ")
		b, _, _ = strings.Cut(b, "\nfrom ")
		return a == b
	})
}

// checkHistory expects every Snapshot and every object to be unchanged.
func (e *editor) checkHistory() {
	e.t.Helper()
	for i, r := range e.history {
		if r.snapshot.Serial() != r.serial {
			e.t.Errorf("snapshot %d: its serial changed", i)
		}
		compareFacts(e.t, fmt.Sprintf("snapshot %d, looked at again", i), snapshotFacts(e.t, r.snapshot), r.facts)
	}
	for o, was := range e.given {
		if is := describe(o); is != was {
			e.t.Errorf("object changed:\n%s\n%s", was, is)
		}
	}
}

func compareFacts(t *testing.T, name string, got, want map[string]string) {
	t.Helper()
	for key, w := range want {
		if got[key] != w {
			t.Errorf("%s: %s is\n  %s\nwant\n  %s", name, key, got[key], w)
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("%s: %s is there:\n  %s", name, key, got[key])
		}
	}
}
