package snapshotfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/clusterset/clusterset/internal/index"
)

// Decode reads what Encode wrote, or says why it doesn't. It is all or nothing: half a state would be names that don't exist.
func Decode(data []byte) (*State, error) {
	items, err := open(data)
	if err != nil {
		return nil, err
	}
	d := &decoder{}
	for number := 0; !d.ended; number++ {
		it := item{}
		window := items[:min(len(items), maxItem)]
		rest, err := decoding.UnmarshalFirst(window, &it)
		if err == nil {
			err = d.take(&it)
		}
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", number, err)
		}
		items = items[len(window)-len(rest):]
	}
	if len(items) > 0 {
		return nil, fmt.Errorf("%d bytes too many", len(items))
	}
	return d.state, nil
}

// open checks what is around the items and returns them.
func open(data []byte) ([]byte, error) {
	if len(data) > MaxSize {
		return nil, errTooLarge
	}
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, errors.New("no snapshot of a clusterset DNS server")
	}
	line, rest, ok := bytes.Cut(data, []byte("\n"))
	if v := line[len(magic):]; !ok || string(v) != version {
		return nil, fmt.Errorf("its format is %.16q, and this release reads %q", v, version)
	}
	end := len(rest) - sha256.Size
	if end < 0 {
		return nil, errors.New("cut off")
	}
	if sum := sha256.Sum256(data[:len(data)-sha256.Size]); !bytes.Equal(sum[:], rest[end:]) {
		return nil, errors.New("cut off or changed: its checksum doesn't match")
	}
	return rest[:end], nil
}

// decoder puts items together.
type decoder struct {
	state *State
	ended bool
	// slice or global takes the next group, group the next endpoints. A slice takes one group.
	slice  *index.EndpointSlice
	global *index.GlobalService
	group  *index.Group
}

func (d *decoder) take(it *item) error {
	if err := it.check(); err != nil {
		return err
	}
	if (it.Header != nil) != (d.state == nil) {
		return errors.New("the header is not the first item, or there are two")
	}
	switch {
	case it.Header != nil:
		d.state = it.Header.state()
		return nil
	case it.Group != nil:
		return d.addGroup(it.Group)
	case it.Endpoints != nil:
		return d.addEndpoints(it.Endpoints)
	}
	if d.slice != nil {
		return errors.New("an EndpointSlice without a group")
	}
	d.slice, d.global, d.group = nil, nil, nil
	switch {
	case it.Import != nil:
		o := it.Import
		d.add(&index.ServiceImport{Service: o.Service, Headless: o.Headless, Ports: indexPorts(o.Ports), IPs: index.SortAddrs(o.IPs)})
	case it.Slice != nil:
		d.slice = &index.EndpointSlice{Namespace: it.Slice.Namespace, Name: it.Slice.Name, Service: it.Slice.Service}
		d.add(d.slice)
	case it.Global != nil:
		d.global = &index.GlobalService{Service: it.Global.Service, Headless: it.Global.Headless, Ports: indexPorts(it.Global.Ports)}
		d.add(d.global)
	case it.Cluster != nil:
		c := index.Cluster(*it.Cluster)
		c.Name, c.Zone, c.Region = intern(c.Name), intern(c.Zone), intern(c.Region)
		d.add(&c)
	case it.End != nil:
		d.ended = true
		if it.End.Objects != len(d.state.Objects) {
			return fmt.Errorf("%d objects, of %d", len(d.state.Objects), it.End.Objects)
		}
	}
	return nil
}

func (d *decoder) add(o index.Object) { d.state.Objects = append(d.state.Objects, o) }

func (d *decoder) addGroup(g *group) error {
	read := index.Group{Cluster: intern(g.Cluster), Region: intern(g.Region), Ports: indexPorts(g.Ports)}
	switch {
	case d.slice != nil:
		d.slice.Group = read
		d.group, d.slice = &d.slice.Group, nil
	case d.global != nil:
		d.global.Groups = append(d.global.Groups, read)
		d.group = &d.global.Groups[len(d.global.Groups)-1]
	default:
		return errors.New("a group of no object")
	}
	return nil
}

func (d *decoder) addEndpoints(endpoints []endpoint) error {
	if d.group == nil {
		return errors.New("endpoints of no group")
	}
	d.group.Endpoints = slices.Grow(d.group.Endpoints, len(endpoints))
	for i := range endpoints {
		e := index.Endpoint(endpoints[i])
		e.Zone = intern(e.Zone)
		d.group.Endpoints = append(d.group.Endpoints, e)
	}
	return nil
}

func (h *header) state() *State {
	s := &State{Known: time.Unix(h.Known, 0), Cluster: h.Cluster, Serial: h.Serial, Namespaces: h.Namespaces}
	if h.All {
		s.Namespaces = nil
	} else if s.Namespaces == nil {
		s.Namespaces = []string{}
	}
	return s
}

func indexPorts(all []port) []index.Port {
	if len(all) == 0 {
		return nil
	}
	out := make([]index.Port, len(all))
	for i := range all {
		out[i] = index.Port(all[i])
		out[i].Name = intern(out[i].Name)
	}
	return out
}

// intern returns one copy of a string that thousands of objects share.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(strings.Clone(s)).Value()
}
