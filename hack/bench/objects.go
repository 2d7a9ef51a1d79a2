package main

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

const namespaces = 100

var serviceImports = schema.GroupVersionResource{Group: mcsv1beta1.GroupName, Version: "v1beta1", Resource: "serviceimports"}

// objects are what the servers answer from: ClusterSetIP services svc-N and headless services hl-N of ten endpoints, spread over a hundred
// namespaces, and one headless service of a hundred endpoints, hl100.ns-0. Each namespace also has Services of the cluster itself:
// local, and the headless pods-of-local of ten endpoints.
type objects struct {
	services, headless int
}

func (o objects) service(i int) string {
	return fmt.Sprintf("svc-%d.ns-%d.svc.clusterset.local.", i%o.services, i%o.services%namespaces)
}

func (o objects) headlessName(i int) string {
	return fmt.Sprintf("hl-%d.ns-%d.svc.clusterset.local.", i%o.headless, i%o.headless%namespaces)
}

// local returns the name of a Service of the cluster itself.
func (o objects) local(i int) string {
	return fmt.Sprintf("local.ns-%d.svc.cluster.local.", i%namespaces)
}

// localHeadless returns the name of a headless Service of the cluster itself.
func (o objects) localHeadless(i int) string { return "pods-of-" + o.local(i) }

// searched returns a name that a pod asks for on the way through its search path to one outside of the cluster.
func (o objects) searched(i int) string {
	path := []string{fmt.Sprintf("ns-%d.svc.cluster.local.", i%namespaces), "svc.cluster.local.", "cluster.local."}
	return fmt.Sprintf("www-%d.example.org.", i) + path[i%len(path)]
}

func (o objects) create(ctx context.Context, plane *kube.ControlPlane) error {
	if err := plane.ApplyContext(ctx, append(kube.MCSCRDs(), crds.All()...)...); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		return err
	}
	for i := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range namespaces { // for names in cluster.local
		g.Go(func() error {
			return createLocal(ctx, client, i)
		})
	}
	for i := range o.services {
		g.Go(func() error {
			ip := fmt.Sprintf("10.100.%d.%d", i/256%256, i%256)
			return createImport(ctx, dyn, fmt.Sprintf("svc-%d", i), i%namespaces, mcsv1beta1.ClusterSetIP, ip)
		})
	}
	for i := range o.headless {
		g.Go(func() error { return createHeadless(ctx, client, dyn, fmt.Sprintf("hl-%d", i), i%namespaces, 10, i) })
	}
	g.Go(func() error { return createHeadless(ctx, client, dyn, "hl100", 0, 100, 7777) })
	return g.Wait()
}

// createLocal creates the cluster's own Services in a namespace: local, and pods-of-local with ten endpoints.
func createLocal(ctx context.Context, client kubernetes.Interface, ns int) error {
	namespace, ports := fmt.Sprintf("ns-%d", ns), []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, o := range []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Spec: corev1.ServiceSpec{Ports: ports}},
		{ObjectMeta: metav1.ObjectMeta{Name: "pods-of-local"}, Spec: corev1.ServiceSpec{Ports: ports, ClusterIP: corev1.ClusterIPNone}},
	} {
		if _, err := client.CoreV1().Services(namespace).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	slice := headlessSlice("pods-of-local", ns, 10, ns)
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "pods-of-local"}
	_, err := client.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

func createImport(ctx context.Context, dyn dynamic.Interface, name string, ns int, kind mcsv1beta1.ServiceImportType, ips ...string) error {
	o := &mcsv1beta1.ServiceImport{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: fmt.Sprintf("ns-%d", ns)},
		Spec: mcsv1beta1.ServiceImportSpec{
			Type: kind, IPs: ips,
			Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		return err
	}
	_, err = dyn.Resource(serviceImports).Namespace(o.Namespace).Create(ctx, u, metav1.CreateOptions{})
	return err
}

func createHeadless(ctx context.Context, client kubernetes.Interface, dyn dynamic.Interface, name string, ns, endpoints, seed int) error {
	if err := createImport(ctx, dyn, name, ns, mcsv1beta1.Headless); err != nil {
		return err
	}
	_, err := client.DiscoveryV1().EndpointSlices(fmt.Sprintf("ns-%d", ns)).Create(ctx, headlessSlice(name, ns, endpoints, seed), metav1.CreateOptions{})
	return err
}

func headlessSlice(name string, ns, endpoints, seed int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-1", Namespace: fmt.Sprintf("ns-%d", ns),
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName:   name,
				mcsv1beta1.LabelSourceCluster: fmt.Sprintf("cluster-%d", seed%5),
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To[int32](80),
		}},
	}
	for j := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", 200+seed/256%50, seed%256, j+1)},
			Hostname:   ptr.To(fmt.Sprintf("pod-%d", j)),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return slice
}
