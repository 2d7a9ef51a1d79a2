package snapshotfile

import (
	"net/netip"

	"github.com/fxamacker/cbor/v2"

	"github.com/clusterset/clusterset/internal/index"
)

const (
	magic   = "clusterset-dns-snapshot "
	version = "1"

	// MaxSize is the most bytes of a file: some 1.5 million endpoints. It bounds what reading one can cost.
	MaxSize = 64 << 20
	// maxItem and maxList are the most bytes of an item and the most elements of a list in it: the most ports of one object,
	// with long names.
	maxItem, maxList = 2 << 20, 1 << 15
	// chunk is how many endpoints share an item.
	chunk = 256
)

// item is one CBOR item: exactly one field is set. Fields have numbers for names, which must not change within a version.
type item struct {
	Header  *header        `cbor:"1,keyasint,omitempty"`
	Import  *serviceImport `cbor:"2,keyasint,omitempty"`
	Slice   *endpointSlice `cbor:"3,keyasint,omitempty"`
	Global  *globalService `cbor:"4,keyasint,omitempty"`
	Cluster *cluster       `cbor:"5,keyasint,omitempty"`
	// Group belongs to the Slice or Global before it, of which a Slice has one.
	Group *group `cbor:"6,keyasint,omitempty"`
	// Endpoints belong to the Group before it. They come in pieces, so that no item is large.
	Endpoints []endpoint `cbor:"7,keyasint,omitempty"`
	End       *end       `cbor:"8,keyasint,omitempty"`
}

type header struct {
	Known      int64    `cbor:"1,keyasint"` // Unix time in seconds
	Cluster    Cluster  `cbor:"2,keyasint"`
	Serial     uint32   `cbor:"3,keyasint"`
	All        bool     `cbor:"4,keyasint,omitempty"` // namespaces
	Namespaces []string `cbor:"5,keyasint,omitempty"`
}

type serviceImport struct {
	Service  index.ServiceKey `cbor:"1,keyasint"`
	Headless bool             `cbor:"2,keyasint,omitempty"`
	Ports    []port           `cbor:"3,keyasint,omitempty"`
	IPs      []netip.Addr     `cbor:"4,keyasint,omitempty"`
}

type endpointSlice struct {
	Namespace string           `cbor:"1,keyasint"`
	Name      string           `cbor:"2,keyasint"`
	Service   index.ServiceKey `cbor:"3,keyasint"`
}

type globalService struct {
	Service  index.ServiceKey `cbor:"1,keyasint"`
	Headless bool             `cbor:"2,keyasint,omitempty"`
	Ports    []port           `cbor:"3,keyasint,omitempty"`
}

// port, endpoint and cluster have the fields of their namesakes in the index, so that one converts to the other.

type port struct {
	Name     string         `cbor:"1,keyasint,omitempty"`
	Number   uint16         `cbor:"2,keyasint"`
	Protocol index.Protocol `cbor:"3,keyasint,omitempty"`
}

type endpoint struct {
	Addr     netip.Addr `cbor:"1,keyasint"`
	Hostname string     `cbor:"2,keyasint,omitempty"`
	Zone     string     `cbor:"3,keyasint,omitempty"`
	Ready    bool       `cbor:"4,keyasint,omitempty"`
}

type cluster struct {
	Name   string       `cbor:"1,keyasint"`
	Zone   string       `cbor:"2,keyasint,omitempty"`
	Region string       `cbor:"3,keyasint,omitempty"`
	Health index.Health `cbor:"4,keyasint,omitempty"`
}

type group struct {
	Cluster string `cbor:"1,keyasint,omitempty"`
	Region  string `cbor:"2,keyasint,omitempty"`
	Ports   []port `cbor:"3,keyasint,omitempty"`
}

type end struct {
	Objects int `cbor:"1,keyasint"`
}

var encoding = must(cbor.EncOptions{Sort: cbor.SortCoreDeterministic}.EncMode())

var decoding = must(cbor.DecOptions{
	DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	MaxArrayElements:  maxList, MaxMapPairs: 16, MaxNestedLevels: 8,
}.DecMode())

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // of the constants above
	}
	return v
}
