package snapshotfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/clusterset/clusterset/internal/index"
)

// sample has every kind and every field.
func sample() *State {
	http, dns := index.Port{Name: "http", Number: 80}, index.Port{Name: "dns", Number: 53, Protocol: index.UDP}
	group := func(cluster string, n int) index.Group {
		g := index.Group{Cluster: cluster, Region: "r1", Ports: []index.Port{http, dns}}
		for i := range n {
			g.Endpoints = append(g.Endpoints, index.Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}), Hostname: fmt.Sprintf("pod-%d", i), Zone: "z1", Ready: i%2 == 0,
			})
		}
		return g
	}
	return &State{
		Known:   time.Unix(1800000000, 0),
		Cluster: Cluster{UID: "1-2-3", CAs: []string{"ab", "cd"}, Server: "https://10.96.0.1:443"},
		Serial:  1800000001,
		Objects: sorted([]index.Object{
			&index.ServiceImport{Service: "web.shop", Ports: []index.Port{http}, IPs: index.Addrs{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd00::1")}},
			&index.ServiceImport{Service: "db.shop", Headless: true},
			&index.EndpointSlice{Namespace: "shop", Name: "db-1", Service: "db.shop", Group: group("beijing", 3)},
			&index.EndpointSlice{Namespace: "shop", Name: "db-2", Service: "db.shop", Group: index.Group{Cluster: "shanghai.ctx"}},
			&index.GlobalService{Service: "nginx.default", Headless: true, Ports: []index.Port{http}, Groups: []index.Group{group("beijing", 2*chunk+1), group("shanghai", 1)}},
			&index.GlobalService{Service: "none.default"},
			&index.Cluster{Name: "beijing", Zone: "华北", Region: "r1", Health: index.Degraded},
			&index.Cluster{Name: "shanghai", Health: index.Gone},
		}),
	}
}

func sorted(objects []index.Object) []index.Object {
	slices.SortFunc(objects, func(a, b index.Object) int {
		p, q := a.ID(), b.ID()
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), strings.Compare(p.Namespace, q.Namespace), strings.Compare(p.Name, q.Name))
	})
	return objects
}

func encoded(tb testing.TB, s *State) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := Encode(&b, s); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestAStateComesBackAsItWas(t *testing.T) {
	for _, namespaces := range [][]string{nil, {}, {"default", "shop"}} {
		want := sample()
		want.Namespaces = namespaces
		got, err := Decode(encoded(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if !bytes.Equal(encoded(t, got), encoded(t, want)) {
			t.Error("equal states have unequal files")
		}
	}
}

// A later release has to read what this one wrote, or to count the version up.
func TestTheFormatIsTheOneOfItsVersion(t *testing.T) {
	path := filepath.Join("testdata", "version-1.snapshot")
	if os.Getenv("UPDATE") != "" {
		if err := Write(path, sample()); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s, sample()) {
		t.Errorf("got %+v", s)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, encoded(t, sample())) {
		t.Errorf("what is written now is not what %s holds: count the version up (UPDATE=1 rewrites the file)", path)
	}
}

// sealed gives items the frame of a file that its checksum vouches for.
func sealed(tb testing.TB, items ...any) []byte {
	tb.Helper()
	b := []byte(magic + version + "\n")
	for _, it := range items {
		raw, ok := it.([]byte)
		if !ok {
			var err error
			if raw, err = cbor.Marshal(it); err != nil {
				tb.Fatal(err)
			}
		}
		b = append(b, raw...)
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func TestUselessFilesAreRefusedWithAReason(t *testing.T) {
	good := encoded(t, sample())
	changed := func(at int) []byte {
		b := bytes.Clone(good)
		b[(at+len(b))%len(b)] ^= 0x40
		return b
	}
	head := item{Header: &header{All: true}}
	with := func(it any) []byte { return sealed(t, head, it, item{End: &end{1}}) }
	imported := func(o serviceImport) []byte { return with(item{Import: &o}) }
	addr := netip.MustParseAddr("10.0.0.1")
	hostile := func(e endpoint) []byte {
		return sealed(t, head, item{Global: &globalService{Service: "a.b"}}, item{Group: &group{Cluster: "c"}}, item{Endpoints: []endpoint{e}}, item{End: &end{1}})
	}
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "no snapshot"},
		{"another program's", []byte("{}\n"), "no snapshot"},
		{"a zeroed disk", make([]byte, 4096), "no snapshot"},
		{"the first line only", good[:len(magic)], `its format is ""`},
		{"a later version", append([]byte(magic+"2\n"), good[len(magic)+2:]...), `its format is "2", and this release reads "1"`},
		{"no line's end", []byte(magic + strings.Repeat("9", 1000)), "its format is"},
		{"cut off within the checksum", good[:len(magic)+10], "cut off"},
		{"cut off", good[:len(good)-100], "cut off or changed"},
		{"one byte short", good[:len(good)-1], "cut off or changed"},
		{"one byte more", append(bytes.Clone(good), 0), "cut off or changed"},
		{"a bit flipped in the middle", changed(len(good) / 2), "cut off or changed"},
		{"a bit flipped in the checksum", changed(-1), "cut off or changed"},
		{"too large", make([]byte, MaxSize+1), "larger than 64 MiB"},
		{"no items", sealed(t), "item 0: EOF"},
		{"no end", sealed(t, head), "item 1: EOF"},
		{"something behind the end", sealed(t, head, item{End: &end{}}, head), "bytes too many"},
		{"fewer objects than were written", sealed(t, head, item{End: &end{1}}), "0 objects, of 1"},
		{"no header", sealed(t, item{End: &end{}}), "the header is not the first item"},
		{"two headers", sealed(t, head, head), "the header is not the first item"},
		{"an item of nothing", with(map[int]int{}), "not one object"},
		{"an item of two", with(item{Cluster: &cluster{Name: "c"}, Import: &serviceImport{Service: "a.b"}}), "not one object"},
		{"an unknown field", with(map[int]any{9: 1}), "unknown field"},
		{"the same field twice", with([]byte{0xa2, 2, 0xf6, 2, 0xf6}), "duplicate map key"},
		{"not CBOR", with([]byte{0xff}), "unexpected \"break\""},
		{"a list that claims two billion elements", with([]byte{0xa1, 7, 0x9a, 0x7f, 0xff, 0xff, 0xff}), "exceeded max number of elements"},
		{"a list of more nothings than any object has", with(append([]byte{0xa1, 7, 0x99, 0xff, 0xff}, bytes.Repeat([]byte{0xf6}, 0xffff)...)), "exceeded max number of elements"},
		{"nesting without end", with(bytes.Repeat([]byte{0x81}, 100)), "exceeded max nested level"},
		{"text of no end", with([]byte{0xa1, 7, 0x9f, 0xff}), "indefinite-length"},
		{"text that isn't UTF-8", with([]byte{0xa1, 5, 0xa1, 1, 0x61, 0xff}), "invalid UTF-8"},
		{"an item larger than any", with(append([]byte{0x5a, 0, 0x30, 0, 0}, make([]byte, 0x300000)...)), "unexpected EOF"},
		{"a group of nothing", with(item{Group: &group{}}), "a group of no object"},
		{"endpoints of nothing", with(item{Endpoints: []endpoint{{Addr: addr}}}), "endpoints of no group"},
		{"a slice without its group", with(item{Slice: &endpointSlice{"b", "s", "a.b"}}), "an EndpointSlice without a group"},
		{"a service of three labels", imported(serviceImport{Service: "a.b.c"}), "is not <name>.<namespace>"},
		{"a service that is a line", imported(serviceImport{Service: "a\n.b"}), "is not <name>.<namespace>"},
		{"a service of one label", imported(serviceImport{Service: "a"}), "is not <name>.<namespace>"},
		{"a wildcard", imported(serviceImport{Service: "*.b"}), "is not <name>.<namespace>"},
		{"a loopback address", imported(serviceImport{Service: "a.b", IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}), "can't be handed to clients"},
		{"an IPv4 address in an IPv6 one", imported(serviceImport{Service: "a.b", IPs: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1")}}), "can't be handed to clients"},
		{"no address", imported(serviceImport{Service: "a.b", IPs: []netip.Addr{{}}}), "can't be handed to clients"},
		{"a port 0", imported(serviceImport{Service: "a.b", Ports: []port{{Name: "http"}}}), "port 0"},
		{"a protocol of none", imported(serviceImport{Service: "a.b", Ports: []port{{Number: 1, Protocol: 3}}}), "protocol 3"},
		{"a port with a dot", imported(serviceImport{Service: "a.b", Ports: []port{{Number: 1, Name: "a.b"}}}), `port name "a.b"`},
		{"a health of none", with(item{Cluster: &cluster{Name: "c", Health: 3}}), "health 3"},
		{"a cluster of three labels", with(item{Cluster: &cluster{Name: "a.b.c"}}), `cluster "a.b.c"`},
		{"a host in upper case", hostile(endpoint{Addr: addr, Hostname: "Pod"}), `hostname "Pod"`},
		{"a host like a port", hostile(endpoint{Addr: addr, Hostname: "_http"}), `hostname "_http"`},
		{"an endpoint without address", hostile(endpoint{}), "can't be handed to clients"},
		{"an address with a zone", hostile(endpoint{Addr: netip.MustParseAddr("fd00::1%eth0")}), "can't be handed to clients"},
	} {
		s, err := Decode(row.data)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", row.name, s, err, row.want)
		}
	}
}

func TestWhatIsTooLargeToReadIsNotWritten(t *testing.T) {
	s := &State{}
	large := slices.IndexFunc(sample().Objects, func(o index.Object) bool { return o.Kind() == index.KindGlobalService })
	s.Objects = slices.Repeat(sample().Objects[large:large+1], 1<<13)
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	if err := Encode(io.Discard, s); !IsTooLarge(err) {
		t.Errorf("got %v", err)
	}
	if err := Write(path, s); !IsTooLarge(err) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestCoverage(t *testing.T) {
	for _, row := range []struct {
		have, want []string
		covers     bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, true},
		{[]string{"a", "b"}, []string{"b"}, true},
		{[]string{"a", "b"}, []string{"b", "c"}, false},
		{[]string{"a"}, nil, false},
	} {
		if got := (&State{Namespaces: row.have}).Covers(row.want); got != row.covers {
			t.Errorf("%q covers %q: %v", row.have, row.want, got)
		}
	}
}

func TestClustersAreToldApart(t *testing.T) {
	full := Cluster{UID: "1", CAs: []string{"a", "b"}, Server: "https://x"}
	for _, row := range []struct {
		name    string
		c       Cluster
		differs string
	}{
		{"itself", full, ""},
		{"nothing known", Cluster{}, ""},
		{"another UID behind the same CA", Cluster{UID: "2", CAs: full.CAs, Server: full.Server}, "kube-system"},
		{"the same UID behind another CA", Cluster{UID: "1", CAs: []string{"z"}}, ""},
		{"another CA", Cluster{CAs: []string{"z"}, Server: full.Server}, "another CA"},
		{"a CA that is being replaced, at another address", Cluster{CAs: []string{"b", "z"}, Server: "https://y"}, ""},
		{"another address and no CA", Cluster{Server: "https://y"}, "its API server is"},
		{"the same address and no CA", Cluster{Server: "https://x"}, ""},
	} {
		if got := row.c.Differs(full); (got == "") != (row.differs == "") || !strings.Contains(got, row.differs) {
			t.Errorf("%s: %q, want %q", row.name, got, row.differs)
		}
	}
}
