package objects

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Component is the chart's label that says which part of ours a pod, a Deployment or a DaemonSet is.
const Component = "app.kubernetes.io/component"

// Its values.
const (
	PartMember = "member"
	PartHub    = "hub"
	PartDNS    = "dns"
)

// EnvCluster is the variable in which our DNS servers, and no others, have their cluster's name.
const EnvCluster = "CLUSTERSET_CLUSTER"

// Pods returns the pods of ours, in whatever namespace they are: other software has parts called dns and hub too.
func (c *Cluster) Pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.HasLabels{Component}); err != nil {
		return nil, c.Words(err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return Program(&p.Spec, p.Labels[Component]) == nil }), nil
}

// Program returns the container that runs the program of a part, nil if none does. A service mesh may have put its own before it.
func Program(spec *corev1.PodSpec, part string) *corev1.Container {
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool {
		if len(c.Command) == 0 {
			return false
		}
		switch program := path.Base(c.Command[0]); part {
		case PartMember, PartHub:
			return program == "clusterset" && len(c.Command) > 1 && c.Command[1] == part
		case PartDNS:
			return program == "coredns" && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == EnvCluster })
		}
		return false
	})
	if at < 0 {
		return nil
	}
	return &spec.Containers[at]
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

// ImageTag returns an image's tag, empty if there is none.
func ImageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[i+1:]
	}
	return ""
}
