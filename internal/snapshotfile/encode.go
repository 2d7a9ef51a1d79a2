package snapshotfile

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/clusterset/clusterset/internal/index"
)

// errTooLarge is what Encode returns of a state that Decode would refuse.
var errTooLarge = fmt.Errorf("larger than %d MiB", MaxSize>>20)

// Encode writes a State. Equal states give equal bytes.
func Encode(w io.Writer, s *State) error {
	sum := sha256.New()
	limited := &limitedWriter{w: io.MultiWriter(w, sum), left: MaxSize - sha256.Size}
	buffered := bufio.NewWriterSize(limited, 64<<10)
	if _, err := buffered.WriteString(magic + version + "\n"); err != nil {
		return err
	}
	e := encoder{encoding.NewEncoder(buffered)}
	if err := e.state(s); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

type encoder struct{ *cbor.Encoder }

func (e encoder) state(s *State) error {
	h := &header{Known: s.Known.Unix(), Cluster: s.Cluster, Serial: s.Serial, All: s.Namespaces == nil, Namespaces: s.Namespaces}
	if err := e.Encode(item{Header: h}); err != nil {
		return err
	}
	for _, o := range s.Objects {
		if err := e.object(o); err != nil {
			return err
		}
	}
	return e.Encode(item{End: &end{len(s.Objects)}})
}

func (e encoder) object(o index.Object) error {
	switch o := o.(type) {
	case *index.ServiceImport:
		return e.Encode(item{Import: &serviceImport{o.Service, o.Headless, ports(o.Ports), []netip.Addr(o.IPs)}})
	case *index.EndpointSlice:
		if err := e.Encode(item{Slice: &endpointSlice{o.Namespace, o.Name, o.Service}}); err != nil {
			return err
		}
		return e.group(&o.Group)
	case *index.GlobalService:
		if err := e.Encode(item{Global: &globalService{o.Service, o.Headless, ports(o.Ports)}}); err != nil {
			return err
		}
		for i := range o.Groups {
			if err := e.group(&o.Groups[i]); err != nil {
				return err
			}
		}
		return nil
	case *index.Cluster:
		c := cluster(*o)
		return e.Encode(item{Cluster: &c})
	default:
		return fmt.Errorf("%T is no object of the index", o)
	}
}

func (e encoder) group(g *index.Group) error {
	if err := e.Encode(item{Group: &group{g.Cluster, g.Region, ports(g.Ports)}}); err != nil {
		return err
	}
	for some := range slices.Chunk(g.Endpoints, chunk) {
		endpoints := make([]endpoint, len(some))
		for i := range some {
			endpoints[i] = endpoint(some[i])
		}
		if err := e.Encode(item{Endpoints: endpoints}); err != nil {
			return err
		}
	}
	return nil
}

func ports(all []index.Port) []port {
	out := make([]port, len(all))
	for i := range all {
		out[i] = port(all[i])
	}
	return out
}

// limitedWriter fails once more than left bytes are written.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errTooLarge
	}
	return l.w.Write(p)
}

// IsTooLarge reports whether an error of Encode is about the size of the state, which no other disk would mend.
func IsTooLarge(err error) bool { return errors.Is(err, errTooLarge) }
