package faultproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Status returns a fault that answers with an error in the API server's format. The headers are alternating names and
// values.
func Status(code int, reason metav1.StatusReason, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(failure(code, reason))
	}
}

// BadGateway is a fault: the answer of a load balancer that finds no API server.
func BadGateway(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "<html>no backend</html>", http.StatusServiceUnavailable)
}

// Break is a fault: the connection breaks instead of an answer.
func Break(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func failure(code int, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "as the test wants it", //nolint:gosec // HTTP codes
	}
}

// Expired is an argument for [API.End]. It returns the event with which an API server ends a watch after etcd has compacted
// its history.
func Expired(mediaType string) ([]byte, error) {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		return nil, errors.New("unknown media type " + mediaType)
	}
	object, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, metav1.Unversioned), failure(http.StatusGone, metav1.StatusReasonExpired))
	if err != nil {
		return nil, err
	}
	var stream bytes.Buffer
	event := &metav1.WatchEvent{Type: "ERROR", Object: runtime.RawExtension{Raw: object}}
	encoder := scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, metav1.Unversioned)
	err = encoder.Encode(event, info.StreamSerializer.Framer.NewFrameWriter(&stream))
	return stream.Bytes(), err
}

// Torn is an argument for [API.End]. It returns half an event, after which the connection breaks.
func Torn(mediaType string) ([]byte, error) {
	piece, err := Expired(mediaType)
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return piece[:len(piece)/2], err
}
