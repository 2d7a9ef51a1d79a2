package statefile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/manifests"
)

// Decode reads what Encode wrote. The notes are about objects, or parts of them, that were left out because they are invalid,
// as in any other manifest.
func Decode(f io.ReaderAt, size int64) (*State, []manifests.Note, error) {
	if size > MaxSize {
		return nil, nil, errTooLarge
	}
	first := make([]byte, min(size, 128))
	if _, err := f.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if !bytes.HasPrefix(first, []byte(opening)) {
		return nil, nil, errors.New("the file isn't a state of a clusterset DNS server")
	}
	var written int
	if n, _ := fmt.Sscanf(string(first[len(opening):]), `{"version":%d`, &written); n == 1 && written != version {
		return nil, nil, fmt.Errorf("the file's format is version %d; this release reads version %d", written, version)
	}
	if err := checkSum(f, size); err != nil {
		return nil, nil, err
	}
	return decodeLines(io.NewSectionReader(f, 0, size-int64(footerSize)))
}

// checkSum verifies the whole file before any object is decoded.
func checkSum(f io.ReaderAt, size int64) error {
	errChanged := errors.New("the file is cut off or changed: its checksum doesn't match")
	at := size - int64(footerSize)
	if at < 0 {
		return errChanged
	}
	footer := make([]byte, footerSize)
	if _, err := f.ReadAt(footer, at); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, at)); err != nil {
		return err
	}
	if string(footer) != closing+hex.EncodeToString(sum.Sum(nil))+closed {
		return errChanged
	}
	return nil
}

func decodeLines(r io.Reader) (*State, []manifests.Note, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 256<<10), MaxSize)
	if !lines.Scan() {
		return nil, nil, errors.New("the file has no first line")
	}
	s, err := decodeHeader(lines.Text())
	if err != nil {
		return nil, nil, err
	}
	var notes []manifests.Note
	for number := 1; lines.Scan(); number++ {
		found, wrong, err := manifests.DecodeJSON(fmt.Sprintf("item %d", number), bytes.TrimSuffix(lines.Bytes(), []byte(",")))
		if err != nil {
			return nil, nil, err
		}
		for _, l := range found {
			if l.Object.Kind() != index.KindReachability { // whose age is lost; Encode writes none
				s.Objects = append(s.Objects, l.Object)
			}
		}
		notes = append(notes, wrong...)
	}
	return s, notes, lines.Err()
}

func decodeHeader(line string) (*State, error) {
	text, ok := strings.CutSuffix(strings.TrimPrefix(line, opening), opened)
	var h header
	if err := json.Unmarshal([]byte(text), &h); err != nil || !ok {
		return nil, fmt.Errorf("the file's first line isn't that of a state: %w", err)
	}
	return &State{Known: h.Known.Local(), Cluster: h.Cluster, Namespaces: h.Namespaces}, nil
}
