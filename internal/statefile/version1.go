package statefile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/topology"
)

// The format of the previous release: a first line, CBOR items (RFC 8742), a SHA-256. It is read so that a server that is
// upgraded while the API server is down can still answer. It can be removed in the next release.
const (
	magic1   = "clusterset-dns-snapshot "
	maxSize1 = 64 << 20
)

// item1 is one item: exactly one field is set.
type item1 struct {
	Header  *header1  `cbor:"1,keyasint,omitempty"`
	Import  *service1 `cbor:"2,keyasint,omitempty"`
	Slice   *slice1   `cbor:"3,keyasint,omitempty"`
	Global  *service1 `cbor:"4,keyasint,omitempty"`
	Cluster *cluster1 `cbor:"5,keyasint,omitempty"`
	// Group belongs to the Slice or Global before it, Endpoints to the Group before them.
	Group     *group1     `cbor:"6,keyasint,omitempty"`
	Endpoints []endpoint1 `cbor:"7,keyasint,omitempty"`
	End       *struct{}   `cbor:"8,keyasint,omitempty"`
}

type header1 struct {
	Known      int64    `cbor:"1,keyasint"` // Unix time in seconds
	Cluster    Cluster  `cbor:"2,keyasint"`
	Serial     uint32   `cbor:"3,keyasint"`
	All        bool     `cbor:"4,keyasint,omitempty"` // namespaces
	Namespaces []string `cbor:"5,keyasint,omitempty"`
}

type service1 struct {
	Service  index.ServiceKey `cbor:"1,keyasint"`
	Headless bool             `cbor:"2,keyasint,omitempty"`
	Ports    []port1          `cbor:"3,keyasint,omitempty"`
	IPs      []netip.Addr     `cbor:"4,keyasint,omitempty"`
}

type slice1 struct {
	Namespace string           `cbor:"1,keyasint"`
	Name      string           `cbor:"2,keyasint"`
	Service   index.ServiceKey `cbor:"3,keyasint"`
}

type group1 struct {
	Cluster string  `cbor:"1,keyasint,omitempty"`
	Region  string  `cbor:"2,keyasint,omitempty"`
	Ports   []port1 `cbor:"3,keyasint,omitempty"`
}

type port1 struct {
	Name     string         `cbor:"1,keyasint,omitempty"`
	Number   uint16         `cbor:"2,keyasint"`
	Protocol index.Protocol `cbor:"3,keyasint,omitempty"`
}

type endpoint1 struct {
	Addr     netip.Addr `cbor:"1,keyasint"`
	Hostname string     `cbor:"2,keyasint,omitempty"`
	Zone     string     `cbor:"3,keyasint,omitempty"`
	Ready    bool       `cbor:"4,keyasint,omitempty"`
}

type cluster1 struct {
	Name   string `cbor:"1,keyasint"`
	Zone   string `cbor:"2,keyasint,omitempty"`
	Region string `cbor:"3,keyasint,omitempty"`
	Health uint8  `cbor:"4,keyasint,omitempty"` // 1 Suspect or drained, 2 Expired
}

var decoding1 = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxArrayElements: 1 << 15, MaxMapPairs: 16, MaxNestedLevels: 8,
	}.DecMode()
	if err != nil {
		panic(err) // of the constants above
	}
	return mode
}()

func decodeVersion1(r io.Reader) (*State, []manifests.Note, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize1))
	if err != nil {
		return nil, nil, err
	}
	end := len(data) - sha256.Size
	_, items, _ := bytes.Cut(data[:max(0, end)], []byte("\n"))
	if sum := sha256.Sum256(data[:max(0, end)]); !bytes.Equal(sum[:], data[max(0, end):]) {
		return nil, nil, errors.New("cut off or changed: its checksum doesn't match")
	}
	var s *State
	var objects []index.Object
	var group *index.Group
	for len(items) > 0 {
		var it item1
		if items, err = decoding1.UnmarshalFirst(items, &it); err != nil {
			return nil, nil, err
		}
		switch {
		case it.Header != nil:
			s = it.Header.state()
		case it.Import != nil:
			o := it.Import
			// This version doesn't record who wrote an import. One without an address stays empty, as it did.
			ours := !o.Headless && len(o.IPs) == 0
			objects = append(objects, &index.ServiceImport{Service: o.Service, Headless: o.Headless, Ports: ports1(o.Ports), IPs: o.IPs, FromImporter: ours})
		case it.Slice != nil:
			o := &index.EndpointSlice{Namespace: it.Slice.Namespace, Name: it.Slice.Name, Service: it.Slice.Service}
			objects, group = append(objects, o), &o.Group
		case it.Global != nil:
			objects = append(objects, &index.GlobalService{Service: it.Global.Service, Headless: it.Global.Headless, Ports: ports1(it.Global.Ports)})
		case it.Cluster != nil:
			o := &index.Cluster{Name: it.Cluster.Name, Member: topology.Member{Region: it.Cluster.Region, Phase: topology.Phase(it.Cluster.Health)}}
			if it.Cluster.Zone != "" {
				o.Zones = []string{it.Cluster.Zone}
			}
			objects = append(objects, o)
		case it.Group != nil:
			if len(objects) > 0 {
				if o, ok := objects[len(objects)-1].(*index.GlobalService); ok {
					o.Groups = append(o.Groups, index.Group{})
					group = &o.Groups[len(o.Groups)-1]
				}
			}
			if group == nil {
				return nil, nil, errors.New("a group without an object")
			}
			group.Cluster, group.Region, group.Ports = it.Group.Cluster, it.Group.Region, ports1(it.Group.Ports)
		case group != nil:
			for _, e := range it.Endpoints {
				group.Endpoints = append(group.Endpoints, index.Endpoint(e))
			}
		}
	}
	if s == nil {
		return nil, nil, errors.New("it has no header")
	}
	notes, err := s.check(objects)
	return s, notes, err
}

// check validates the objects as if they came from a manifest, so that there is one place that checks them.
func (s *State) check(objects []index.Object) (notes []manifests.Note, err error) {
	var line []byte
	for i, o := range objects {
		line = manifests.Append(line[:0], o)
		found, wrong, err := manifests.DecodeJSON(fmt.Sprintf("item %d", i+1), line)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			s.Objects = append(s.Objects, l.Object)
		}
		notes = append(notes, wrong...)
	}
	return notes, nil
}

func (h *header1) state() *State {
	s := &State{Known: time.Unix(h.Known, 0), Cluster: h.Cluster, Serial: h.Serial, Namespaces: h.Namespaces}
	if h.All {
		s.Namespaces = nil
	} else if s.Namespaces == nil {
		s.Namespaces = []string{}
	}
	return s
}

func ports1(all []port1) []index.Port {
	out := make([]index.Port, 0, len(all))
	for _, p := range all {
		if p.Protocol <= index.SCTP {
			out = append(out, index.Port(p))
		}
	}
	return out
}
