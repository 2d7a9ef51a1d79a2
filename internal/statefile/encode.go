package statefile

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/clusterset/clusterset/internal/manifests"
)

// MaxSize is the largest size of a file in bytes, enough for more than a million endpoints. It bounds the cost of
// reading one.
const MaxSize = manifests.MaxFile

const (
	version    = 1
	opening    = `{"apiVersion":"v1","kind":"List","state":`
	opened     = `,"items":[`
	closing    = `],"sha256":"`
	closed     = "\"}\n"
	footerSize = len(closing) + 2*sha256.Size + len(closed)
)

// header is everything in a file except the objects and the checksum.
type header struct {
	Version    int       `json:"version"` // first, so that the first bytes identify a later format
	Known      time.Time `json:"known"`
	Cluster    Cluster   `json:"cluster"`
	Namespaces []string  `json:"namespaces"` // null for all
}

// errTooLarge is returned by Encode for a state that Decode would refuse.
var errTooLarge = fmt.Errorf("the state is larger than %d MiB", MaxSize>>20)

// Encode writes a State object by object: its allocations don't grow with the number of objects.
func Encode(w io.Writer, s *State) error {
	head, err := json.Marshal(header{version, s.Known.UTC().Truncate(time.Second), s.Cluster, s.Namespaces})
	if err != nil {
		return err
	}
	sum := sha256.New()
	limited := &limitedWriter{w: io.MultiWriter(w, sum), left: MaxSize - footerSize}
	buffered := bufio.NewWriterSize(limited, 256<<10)
	line := append(append([]byte(opening), head...), opened...)
	for i, o := range s.Objects {
		if i > 0 {
			line = append(line, ',')
		}
		if _, err := buffered.Write(append(line, '\n')); err != nil {
			return err
		}
		line = manifests.Append(line[:0], o)
	}
	if _, err := buffered.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	_, err = io.WriteString(w, closing+hex.EncodeToString(sum.Sum(nil))+closed)
	return err
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
