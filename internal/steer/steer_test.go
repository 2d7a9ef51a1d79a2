package steer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Rule D30 of docs/spec/data-path.md: what each value of --steer means, by what runs in the cluster.
func TestSteer(t *testing.T) {
	const hints, labels = clustersetv1alpha1.ReasonHints, clustersetv1alpha1.ReasonLabels
	cilium := func(data map[string]string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium-config"}, Data: data}
	}
	node := func(annotation string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{annotation: "x"}}}
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("things"), "", nil)
	ovn, beside := node("k8s.ovn.org/node-chassis-id"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
	for name, c := range map[string]struct {
		steer   Mode
		runs    []client.Object
		refuses error  // what reads end with
		want    string // the reason
		says    string // a part of the message
	}{
		"kube-proxy":              {Auto, []client.Object{beside, node("ovn.kubernetes.io/cidr")}, nil, hints, "neither Cilium nor OVN-Kubernetes"},
		"Cilium":                  {Auto, []client.Object{cilium(nil), beside}, nil, labels, "Cilium"},
		"Cilium by default":       {Auto, []client.Object{cilium(map[string]string{"enable-service-topology": "false"})}, nil, labels, "Cilium"},
		"Cilium that reads hints": {Auto, []client.Object{cilium(map[string]string{"enable-service-topology": "true"})}, nil, hints, "Cilium"},
		"OVN-Kubernetes":          {Auto, []client.Object{beside, ovn}, nil, labels, "node n1 has k8s.ovn.org/node-chassis-id"},
		"Cilium after it":         {Auto, []client.Object{cilium(map[string]string{"enable-service-topology": "true"}), ovn}, nil, hints, "Cilium"},
		"nothing may be read":     {Auto, []client.Object{cilium(nil), ovn}, forbidden, hints, "the agent may not look: things is forbidden"},
		"nothing can be read":     {Auto, nil, errors.New("timeout"), "", ""},
		"hints, whatever runs":    {Hints, []client.Object{cilium(nil)}, forbidden, hints, "--steer"},
		"labels, whatever runs":   {Labels, nil, nil, labels, "--steer"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := unreadable{fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(c.runs...).Build(), c.refuses}
			got, err := c.steer.Decide(t.Context(), reader)
			if got.Reason != c.want || !strings.Contains(got.Message, c.says) || (err != nil) != (c.want == "") {
				t.Errorf("got %+v, %v; want %s and %q", got, err, c.want, c.says)
			}
		})
	}
}

// unreadable ends each read with an error, unless that is nil.
type unreadable struct {
	client.Reader
	with error
}

func (r unreadable) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if r.with != nil {
		return r.with
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r unreadable) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	if r.with != nil {
		return r.with
	}
	return r.Reader.List(ctx, o, opts...)
}

// Which API servers know trafficDistribution, and by what name. Rule D26 of docs/spec/data-path.md.
func TestDistribution(t *testing.T) {
	for version, want := range map[string]string{"v1.30.14": "", "v1.31.0-eks-1a2b": "PreferClose", "v1.34.9+k3s1": "PreferClose", "v1.35.0": "PreferSameZone", "v1.40.1": "PreferSameZone"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"gitVersion": version})
		}))
		got, err := Distribution(&rest.Config{Host: server.URL}, server.Client())
		if server.Close(); err != nil || ptr.Deref(got, "") != want {
			t.Errorf("%s: %v, %v; want %q", version, got, err, want)
		}
	}
}
