package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

const namespaces = 100

// objects are what the servers answer from: ClusterSetIP services svc-N and headless services hl-N of ten endpoints, spread over a hundred
// namespaces, and one headless service of a hundred endpoints, hl100.ns-0. Each namespace also has Services of the cluster itself:
// local, and the headless pods-of-local of ten endpoints.
type objects struct {
	services, headless int
}

const hl100 = "hl100.ns-0.svc.clusterset.local."

func (o objects) service(i int) string {
	return fmt.Sprintf("svc-%d.ns-%d.svc.clusterset.local.", i%o.services, i%o.services%namespaces)
}

func (o objects) headlessName(i int) string {
	return fmt.Sprintf("hl-%d.ns-%d.svc.clusterset.local.", i%o.headless, i%o.headless%namespaces)
}

// local returns the name of a Service of the cluster itself.
func (objects) local(i int) string {
	return fmt.Sprintf("local.ns-%d.svc.cluster.local.", i%namespaces)
}

// localHeadless returns the name of a headless Service of the cluster itself.
func (o objects) localHeadless(i int) string { return "pods-of-" + o.local(i) }

// create creates the namespaces, then all objects in them.
func (o objects) create(ctx context.Context, cluster *fleet.Cluster) error {
	if err := cluster.Plane.ApplyContext(ctx, append(kube.MCSCRDs(), crds.All()...)...); err != nil {
		return err
	}
	var in, all []client.Object
	for i := range namespaces {
		in = append(in, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ns-%d", i)}})
		ports := []corev1.ServicePort{{Name: "http", Port: 80}}
		pods := headlessSlice("pods-of-local", i, 10, i)
		pods.Labels = map[string]string{discoveryv1.LabelServiceName: "pods-of-local"}
		all = append(all, pods, &corev1.Service{ObjectMeta: meta("local", i), Spec: corev1.ServiceSpec{Ports: ports}},
			&corev1.Service{ObjectMeta: meta("pods-of-local", i), Spec: corev1.ServiceSpec{Ports: ports, ClusterIP: corev1.ClusterIPNone}})
	}
	for i := range o.services {
		all = append(all, serviceImport(fmt.Sprintf("svc-%d", i), i%namespaces, mcsv1beta1.ClusterSetIP, fmt.Sprintf("10.100.%d.%d", i/256%256, i%256)))
	}
	for i := range o.headless {
		name := fmt.Sprintf("hl-%d", i)
		all = append(all, serviceImport(name, i%namespaces, mcsv1beta1.Headless), headlessSlice(name, i%namespaces, 10, i))
	}
	all = append(all, serviceImport("hl100", 0, mcsv1beta1.Headless), headlessSlice("hl100", 0, 100, 7777))
	for _, some := range [][]client.Object{in, all} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for _, object := range some {
			group.Go(func() error { return cluster.Client.Create(ctx, object) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func meta(name string, ns int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: fmt.Sprintf("ns-%d", ns)}
}

func serviceImport(name string, ns int, kind mcsv1beta1.ServiceImportType, ips ...string) *mcsv1beta1.ServiceImport {
	return &mcsv1beta1.ServiceImport{
		ObjectMeta: meta(name, ns),
		Spec: mcsv1beta1.ServiceImportSpec{
			Type: kind, IPs: ips, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

func headlessSlice(name string, ns, endpoints, seed int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(name+"-1", ns),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80))}},
	}
	slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: name, mcsv1beta1.LabelSourceCluster: fmt.Sprintf("cluster-%d", seed%5)}
	for j := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address(seed, j)}, Hostname: new(fmt.Sprintf("pod-%d", j)), Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return slice
}

// address returns the address of the j'th endpoint of a headless service.
func address(seed, j int) string { return fmt.Sprintf("10.%d.%d.%d", 200+seed/256%50, seed%256, j+1) }
