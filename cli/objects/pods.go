package objects

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Component is the chart's label that says what a pod is: hub, member or dns.
const Component = "app.kubernetes.io/component"

// Pods returns the pods of the chart, by that label and the program that they run: nameOverride changes the label app.kubernetes.io/name.
func (c *Cluster) Pods(ctx context.Context) ([]corev1.Pod, error) {
	selector, err := labels.Parse(Component + " in (hub, member, dns)")
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err = c.List(ctx, &pods, client.MatchingLabelsSelector{Selector: selector})
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return Program(&p) == nil }), err
}

// Program returns the container that runs a program of ours, nil if none does. A service mesh may have put its own before it.
func Program(p *corev1.Pod) *corev1.Container {
	for i, c := range p.Spec.Containers {
		if len(c.Command) > 0 && (c.Command[0] == "/clusterset" || c.Command[0] == "/coredns") {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

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
