package narrow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event is the part of a watch event that is read here.
type event struct {
	Type   string `json:"type"`
	Object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Code int `json:"code"`
	} `json:"object"`
}

// copy passes on the events of a namespace's watch until it ends. It always returns an error: io.EOF if the watch ended
// normally.
func (s *stream) copy(namespace string, from io.ReadCloser) error {
	defer func() { _ = from.Close() }()
	decoder := json.NewDecoder(from)
	var content json.RawMessage
	for {
		if err := decoder.Decode(&content); err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(content, &e); err != nil {
			return fmt.Errorf("watch %s: %w", namespace, err)
		}
		if err := s.pass(namespace, content, e); err != nil {
			return err
		}
	}
}

// pass passes on one event, unless it concerns only this stream of one namespace.
func (s *stream) pass(namespace string, content []byte, e event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, version := namespace == s.list.peers[0], e.Object.Metadata.ResourceVersion
	switch e.Type {
	case "BOOKMARK":
		if s.initial && own && s.awaited[namespace] {
			if !isEnd(content) {
				return nil
			}
			s.end = bytes.Clone(content)
		}
		s.selection.read(s.list, namespace, version)
		if s.awaited[namespace] {
			delete(s.awaited, namespace)
			return s.settled()
		}
		return nil
	case "ERROR":
		if own {
			if err := s.write(content); err != nil {
				return err
			}
			return io.EOF
		}
		if e.Object.Code == http.StatusGone {
			return errSpoiled
		}
		return fmt.Errorf("watch %s: %d", namespace, e.Object.Code)
	}
	if s.awaited[namespace] {
		s.came = true
	}
	if err := s.write(content); err != nil {
		return err
	}
	s.selection.passed(s.list, namespace, version)
	return nil
}

// settled writes the end of the initial events once no namespace is awaited.
func (s *stream) settled() error {
	if s.end == nil || len(s.awaited) > 0 {
		return nil
	}
	end := s.end
	s.end = nil
	return s.write(end)
}

// write returns when the reader has taken all of it.
func (s *stream) write(content []byte) error {
	_, err := s.to.Write(append(content, '\n'))
	return err
}

// isEnd says whether a bookmark ends the initial events.
func isEnd(content []byte) bool {
	var bookmark struct {
		Object struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	}
	return json.Unmarshal(content, &bookmark) == nil && bookmark.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
