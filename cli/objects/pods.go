package objects

import (
	"errors"
	"net/http"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// PodClient returns a client for what pods answer through the API server. Any pod can have the labels of ours, so none is trusted: it
// follows no redirect, because the user's token would go along, and reads no more than that many bytes of an answer, or of an error.
func PodClient(config *rest.Config, most int64) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(t http.RoundTripper) http.RoundTripper { return distrust{t, most} })
	return kubernetes.NewForConfig(config)
}

type distrust struct {
	http.RoundTripper
	most int64
}

func (d distrust) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 3 {
		_ = resp.Body.Close()
		return nil, errors.New("it redirects, which isn't followed")
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, d.most)
	return resp, nil
}

// ImageTag returns an image's tag and digest, each empty if there is none.
func ImageTag(image string) (tag, digest string) {
	name, digest, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	return tag, digest
}
