package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
)

// vips begins near's ClusterSetIPs. Until near has allocated one, clusterset.local is answered with far's address.
const vips = "10.97."

// timedChanges is how many changes of each kind are timed.
const timedChanges = 200

// latency measures changes in far, from the API call to the first right answer in near.
func (b *bench) latency(ctx context.Context) error {
	b.say("timing %d exports and %d changes", timedChanges, timedChanges)
	var exported, changed []time.Duration
	for i := range timedChanges {
		name := fmt.Sprintf("svc-%d", i)
		took, err := b.export(ctx, name, "", func(answer string) bool { return strings.HasPrefix(answer, vips) })
		if err != nil {
			return err
		}
		exported = append(exported, took)
	}
	b.percentiles("export → clusterset.local answers elsewhere", exported)

	if _, err := b.export(ctx, "headless", corev1.ClusterIPNone, is("10.1.0.1")); err != nil {
		return err
	}
	for i := range timedChanges {
		began, address := time.Now(), fmt.Sprintf("10.2.0.%d", 1+i)
		s := sliceOf(namespace, "headless", address)
		if err := b.far.Client.Patch(ctx, s, client.MergeFrom(sliceOf(namespace, "headless", "10.1.0.1"))); err != nil {
			return err
		}
		if err := b.answered(ctx, began, clustersetName("headless"), is(address)); err != nil {
			return err
		}
		changed = append(changed, time.Since(began))
	}
	b.percentiles("endpoint changes → answer changes elsewhere", changed)

	// The next part begins with nothing imported.
	if err := b.far.Client.DeleteAllOf(ctx, &mcsv1beta1.ServiceExport{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	return b.awaitMetrics(ctx, b.near, "nothing is imported", func(s fleet.Samples) bool {
		return s.Sum("clusterset_importer_services", "state", "imported") == 0
	})
}

// export makes a Service in far and exports it. It returns how long it took from the export until near answers it rightly.
func (b *bench) export(ctx context.Context, name, clusterIP string, right func(answer string) bool) (time.Duration, error) {
	for _, o := range serviceIn(namespace, name, clusterIP, "10.1.0.1") {
		if err := b.far.Client.Create(ctx, o); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	if err := b.far.Client.Create(ctx, exportOf(namespace, name)); err != nil {
		return 0, err
	}
	err := b.answered(ctx, began, clustersetName(name), right)
	return time.Since(began), err
}

// serviceIn returns a Service and its EndpointSlice.
func serviceIn(namespace, name, clusterIP, address string) []client.Object {
	return []client.Object{sliceOf(namespace, name, address), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}}
}

func exportOf(namespace, name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// sliceOf returns an EndpointSlice of a Service, as if made by hand.
func sliceOf(namespace, service, address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
}

func clustersetName(service string) string {
	return service + "." + namespace + ".svc.clusterset.local"
}

func is(address string) func(answer string) bool {
	return func(answer string) bool { return answer == address }
}

// answered waits until near's CoreDNS answers a name rightly. The longer it is since the change, the less often it asks: hundreds of waiting
// queries must not take processor time from the processes they wait for.
func (b *bench) answered(ctx context.Context, began time.Time, name string, right func(answer string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		answer := "nothing"
		reply, err := b.near.DNS.Ask(ctx, name, dns.TypeA)
		if err == nil {
			answer = fleet.Data(reply)[0]
		}
		if right(answer) {
			return nil
		}
		if stopped := pause(ctx, max(time.Millisecond, time.Since(began)/20)); stopped != nil {
			return fmt.Errorf("%s after its change: %w (last answer: %q, %v)", name, stopped, answer, err) //nolint:errorlint // it may be nil
		}
	}
}
