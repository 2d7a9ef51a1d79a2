package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/exporter"
)

// vips begins near's ClusterSetIPs. Until near has allocated one, clusterset.local is answered with far's address.
const vips = "10.97."

// timedUnexports is how many un-exports are timed: each begins with exporter.DefaultReplaceFor.
const timedUnexports = 20

// latency measures changes in far, from the API call to the first right answer in near.
func (b *bench) latency(ctx context.Context) error {
	b.say("timing %d exports and changes, and some un-exports", b.sizes.changes)
	var exported, changed, gone []time.Duration
	name := func(i int) string { return fmt.Sprintf("svc-%d", i) }
	for i := range b.sizes.changes {
		if err := b.makeService(ctx, name(i), corev1.ServiceSpec{}); err != nil {
			return err
		}
		took, err := b.timed(ctx, name(i), func(answer string) bool { return strings.HasPrefix(answer, vips) },
			func() error { return b.far.Client.Create(ctx, exportOf(namespace, name(i))) })
		if err != nil {
			return err
		}
		exported = append(exported, took)
	}
	b.percentiles("export → clusterset.local answers elsewhere", exported)

	if err := b.makeService(ctx, "headless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}); err != nil {
		return err
	}
	if err := b.far.Client.Create(ctx, exportOf(namespace, "headless")); err != nil {
		return err
	}
	for i := range b.sizes.changes {
		address := fmt.Sprintf("10.2.%d.%d", i/250, 1+i%250)
		took, err := b.timed(ctx, "headless", func(answer string) bool { return answer == address }, func() error {
			return b.far.Client.Patch(ctx, slice(namespace, "headless", address), client.MergeFrom(slice(namespace, "headless", "10.1.0.1")))
		})
		if err != nil {
			return err
		}
		changed = append(changed, took)
	}
	b.percentiles("endpoint changes → answer changes elsewhere", changed)

	for i := range b.sizes.changes {
		unexport := func() error { return b.far.Client.Delete(ctx, exportOf(namespace, name(i))) }
		if i >= timedUnexports {
			if err := unexport(); err != nil {
				return err
			}
			continue
		}
		took, err := b.timed(ctx, name(i), func(answer string) bool { return answer == "NXDOMAIN" }, unexport)
		if err != nil {
			return err
		}
		gone = append(gone, took-exporter.DefaultReplaceFor)
	}
	b.percentiles("un-export → NXDOMAIN elsewhere, after the wait for a replacement", gone)
	return nil
}

func (b *bench) makeService(ctx context.Context, name string, spec corev1.ServiceSpec) error {
	spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := b.far.Client.Create(ctx, svc); err != nil {
		return err
	}
	return b.far.Client.Create(ctx, slice(namespace, name, "10.1.0.1"))
}

func exportOf(namespace, name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// slice returns an EndpointSlice of a Service, as if made by hand.
func slice(namespace, service, address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
	}
}

// timed makes a change, and returns how long it took until near answers a service's name rightly.
func (b *bench) timed(ctx context.Context, service string, right func(answer string) bool, change func() error) (time.Duration, error) {
	began := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	err := b.answered(ctx, began, service+"."+namespace+".svc.clusterset.local.", right)
	return time.Since(began), err
}

// answered waits until near's CoreDNS answers a name rightly. The longer it is since the change, the less often it asks: hundreds of waiting
// queries must not take processor time from the processes they wait for.
func (b *bench) answered(ctx context.Context, began time.Time, name string, right func(answer string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	for {
		answer, err := b.dig(name)
		if err == nil && right(answer) {
			return nil
		}
		if stopped := pause(ctx, max(time.Millisecond, time.Since(began)/20)); stopped != nil {
			return fmt.Errorf("%s after its change: %w (last answer: %q, %v)", name, stopped, answer, err) //nolint:errorlint // it may be nil
		}
	}
}

// dig asks near's CoreDNS for A over UDP and returns the first address, or why there is none.
func (b *bench) dig(name string) (string, error) {
	c := dns.Client{Timeout: time.Second}
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort("127.0.0.1", b.near.DNS.Port))
	if err != nil {
		return "", err
	}
	if len(r.Answer) > 0 {
		if a, ok := r.Answer[0].(*dns.A); ok {
			return a.A.String(), nil
		}
	}
	return dns.RcodeToString[r.Rcode], nil
}
