package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// sample returns a state with every kind and every field.
func sample() *State {
	http, dns := index.Port{Name: "http", Number: 80}, index.Port{Name: "dns", Number: 53, Protocol: index.UDP}
	group := func(cluster, region string, n int) index.Group {
		g := index.Group{Cluster: cluster, Region: region, Ports: []index.Port{http, dns}}
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
		Objects: []index.Object{
			&index.ServiceImport{Service: "db.shop", Headless: true},
			&index.ServiceImport{Service: "web.shop", Ports: []index.Port{http}, IPs: index.Addrs{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd00::1")}},
			&index.EndpointSlice{Namespace: "shop", Name: "db-1", Service: "db.shop", Group: group("beijing", "", 3)},
			&index.EndpointSlice{Namespace: "shop", Name: "db-2", Service: "db.shop", Group: index.Group{Cluster: "shanghai.ctx"}},
			&index.GlobalService{Service: "nginx.default", Headless: true, Ports: []index.Port{http}, Groups: []index.Group{group("beijing", "r1", 513), group("shanghai", "r1", 1)}},
			&index.GlobalService{Service: "none.default"},
			&index.Cluster{Name: "beijing", Member: topology.Member{Zones: []string{"华北"}, Region: "r1", Phase: topology.Suspect}},
			&index.Cluster{Name: "shanghai", Member: topology.Member{Phase: topology.Expired}},
		},
	}
}

func encoded(tb testing.TB, s *State) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := Encode(&b, s); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func decode(data []byte) (*State, []manifests.Note, error) {
	return Decode(bytes.NewReader(data), int64(len(data)))
}

func TestAStateComesBackAsItWas(t *testing.T) {
	for _, namespaces := range [][]string{nil, {}, {"default", "shop"}} {
		want := sample()
		want.Namespaces = namespaces
		got, notes, err := decode(encoded(t, want))
		if err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		if !bytes.Equal(encoded(t, got), encoded(t, want)) {
			t.Errorf("got %s, want %s", encoded(t, got), encoded(t, want))
		}
		if (got.Namespaces == nil) != (namespaces == nil) || !got.Known.Equal(want.Known) {
			t.Errorf("got %+v", got)
		}
	}
}

// The next release must be able to read this release's files, or the version number of the format must be increased.
func TestFilesOfThisVersionAreRead(t *testing.T) {
	path := filepath.Join("testdata", "version-1.json")
	if os.Getenv("UPDATE") != "" {
		if err := Write(path, sample()); err != nil {
			t.Fatal(err)
		}
	}
	s, notes, err := Read(path)
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	if !bytes.Equal(encoded(t, s), encoded(t, sample())) {
		t.Errorf("%s: got %s", path, encoded(t, s))
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, encoded(t, sample())) {
		t.Errorf("what is written now is not what %s holds: count the version up, or, where old releases can read it, UPDATE=1", path)
	}
}

// A state file is a manifest like any other, which explain and people can read.
func TestAFileIsAManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dns.snapshot") // a name that isn't read as part of a directory
	if err := Write(path, sample()); err != nil {
		t.Fatal(err)
	}
	found, notes, err := manifests.Read(path)
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	s := sample()
	s.Objects = nil
	for _, l := range found {
		s.Objects = append(s.Objects, l.Object)
	}
	if !bytes.Equal(encoded(t, s), encoded(t, sample())) {
		t.Errorf("got %s", encoded(t, s))
	}
}

// sealed adds the frame and the valid checksum of a state file to lines.
func sealed(lines ...string) []byte {
	body := strings.Join(lines, "\n") + "\n"
	sum := sha256.Sum256([]byte(body))
	return []byte(body + closing + hex.EncodeToString(sum[:]) + closed)
}

const firstLine = opening + `{"version":1,"known":"2027-01-15T08:00:00Z","cluster":{},"namespaces":null}` + opened

func TestUselessFilesAreRefusedWithAReason(t *testing.T) {
	good := encoded(t, sample())
	changed := func(good []byte, at int) []byte {
		b := bytes.Clone(good)
		b[(at+len(b))%len(b)] ^= 0x40
		return b
	}
	for _, row := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "isn't a state"},
		{"another program's", []byte("{}\n"), "isn't a state"},
		{"a zeroed disk", make([]byte, 4096), "isn't a state"},
		{"the first word only", good[:len(opening)-1], "isn't a state"},
		{"the first line only", good[:bytes.IndexByte(good, '\n')], "cut off"},
		{"a later version", sealed(strings.Replace(firstLine, `"version":1`, `"version":2`, 1)), "the file's format is version 2; this release reads version 1"},
		{"cut off within the checksum", good[:len(good)-10], "cut off"},
		{"cut off", good[:len(good)-200], "cut off or changed"},
		{"one byte short", good[:len(good)-1], "cut off or changed"},
		{"one byte more", append(bytes.Clone(good), '\n'), "cut off or changed"},
		{"a bit flipped in the middle", changed(good, len(good)/2), "cut off or changed"},
		{"a bit flipped in the checksum", changed(good, -20), "cut off or changed"},
		{"no version", sealed(opening + "{}" + opened + "x"), "isn't that of a state"},
		{"a header that isn't one", sealed(opening + `{"known":"x"}` + opened), "isn't that of a state"},
		{"a line that is no JSON", sealed(firstLine, "{"), "item 1"},
		{"a line of another kind of thing", sealed(firstLine, `[1]`), "item 1: want an object"},
	} {
		s, _, err := decode(row.data)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, %v, want an error with %q", row.name, s, err, row.want)
		}
	}
	if _, _, err := Decode(bytes.NewReader(good), MaxSize+1); !errors.Is(err, errTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// An object that somebody else wrote is treated as in any other manifest: the parts that can't be served are left out and
// reported. Verdicts are left out silently: nobody knows their age (rule D51 of docs/spec/data-path.md).
func TestWhatCannotBeServedIsLeftOut(t *testing.T) {
	s, notes, err := decode(sealed(firstLine,
		`{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","metadata":{"name":"a","namespace":"b"},"spec":{"type":"ClusterSetIP","ips":["127.0.0.1","10.0.0.1"],"ports":[]}},`,
		`{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","metadata":{"name":"*","namespace":"b"},"spec":{"type":"Headless","ports":[]}},`,
		`{"apiVersion":"clusterset.dev/v1alpha1","kind":"Reachability","metadata":{"name":"local"},"clusters":[{"name":"c1","reachable":"False"}]},`,
		`{"apiVersion":"v1","kind":"Secret"}`))
	if err != nil || len(s.Objects) != 1 || len(notes) != 3 {
		t.Fatal(s, notes, err)
	}
	if ips := s.Objects[0].(*index.ServiceImport).IPs; len(ips) != 1 || ips[0] != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("addresses %v", ips)
	}
}

func TestWhatIsTooLargeToReadIsNotWritten(t *testing.T) {
	s := &State{}
	large := slices.IndexFunc(sample().Objects, func(o index.Object) bool { return o.Kind() == index.KindGlobalService })
	s.Objects = slices.Repeat(sample().Objects[large:large+1], 1<<13)
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	if err := Encode(io.Discard, s); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := Write(path, s); !errors.Is(err, errTooLarge) {
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
		{"another address and no CA", Cluster{Server: "https://y"}, "the API server is https://y here, and https://x there"},
		{"the same address and no CA", Cluster{Server: "https://x"}, ""},
	} {
		if got := row.c.Differs(full); (got == "") != (row.differs == "") || !strings.Contains(got, row.differs) {
			t.Errorf("%s: %q, want %q", row.name, got, row.differs)
		}
	}
}
