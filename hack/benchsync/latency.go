package main

import (
	"context"
	"fmt"
	"net"
	"slices"
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

func (b *bench) latencyAlone(ctx context.Context) error {
	return b.latency(ctx, "alone", "")
}

// latency measures changes in far, from the API call to the first right answer in near. prefix distinguishes the names of two rounds.
func (b *bench) latency(ctx context.Context, prefix, how string) error {
	b.say("timing %d exports and changes, and some un-exports%s", b.changes, how)
	var global, clusterset, changed, gone []time.Duration
	for i := range b.changes {
		name := fmt.Sprintf("%s-%d", prefix, i)
		if err := b.makeService(ctx, name, corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}, "10.1.0.1"); err != nil {
			return err
		}
		export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		began := time.Now()
		if err := b.far.Client.Create(ctx, export); err != nil {
			return err
		}
		at, err := b.resolve(ctx, began, map[string]func(string) bool{
			name + "." + namespace + ".svc.global.":           isAddress,
			name + "." + namespace + ".svc.clusterset.local.": isVIP,
		})
		if err != nil {
			return err
		}
		global, clusterset = append(global, at[name+"."+namespace+".svc.global."]), append(clusterset, at[name+"."+namespace+".svc.clusterset.local."])
	}
	b.percentiles("export → svc.global answers elsewhere"+how, global)
	b.percentiles("export → clusterset.local answers elsewhere"+how, clusterset)

	name := prefix + "-headless"
	if err := b.makeService(ctx, name, corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}, "10.1.0.1"); err != nil {
		return err
	}
	if err := b.far.Client.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		return err
	}
	for i := range b.changes {
		address := fmt.Sprintf("10.2.%d.%d", i/250, 1+i%250)
		s := slice(name, address)
		began := time.Now()
		if err := b.far.Client.Patch(ctx, s, client.MergeFrom(slice(name, "10.1.0.1"))); err != nil {
			return err
		}
		at, err := b.resolve(ctx, began, map[string]func(string) bool{
			name + "." + namespace + ".svc.clusterset.local.": func(answer string) bool { return answer == address },
		})
		if err != nil {
			return err
		}
		for _, d := range at {
			changed = append(changed, d)
		}
	}
	b.percentiles("endpoint changes → answer changes elsewhere"+how, changed)

	for i := range b.changes {
		name := fmt.Sprintf("%s-%d", prefix, i)
		began := time.Now()
		if err := b.far.Client.Delete(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			return err
		}
		if i >= timedUnexports {
			continue
		}
		at, err := b.resolve(ctx, began, map[string]func(string) bool{
			name + "." + namespace + ".svc.clusterset.local.": func(answer string) bool { return answer == "NXDOMAIN" },
		})
		if err != nil {
			return err
		}
		for _, d := range at {
			gone = append(gone, d-exporter.DefaultReplaceFor)
		}
	}
	b.percentiles("un-export → NXDOMAIN elsewhere, after the wait for a replacement"+how, gone)
	return nil
}

// timedUnexports is how many un-exports are timed: each begins with exporter.DefaultReplaceFor.
const timedUnexports = 20

func isAddress(answer string) bool { return strings.HasPrefix(answer, "10.") }

// isVIP reports whether the answer is one of near's ClusterSetIPs. Until near has allocated one, clusterset.local is answered with far's
// address.
func isVIP(answer string) bool { return strings.HasPrefix(answer, "10.97.") }

func (b *bench) makeService(ctx context.Context, name string, spec corev1.ServiceSpec, address string) error {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := b.far.Client.Create(ctx, svc); err != nil {
		return err
	}
	return b.far.Client.Create(ctx, slice(name, address))
}

// slice returns an EndpointSlice of a Service, as if made by hand.
func slice(service, address string) *discoveryv1.EndpointSlice {
	port, number := "http", int32(8080)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
}

// resolve queries near's CoreDNS until the answer for each name is right, and returns how long that took for each.
func (b *bench) resolve(ctx context.Context, began time.Time, right map[string]func(string) bool) (map[string]time.Duration, error) {
	took := map[string]time.Duration{}
	tick := time.NewTicker(time.Millisecond) // a busy loop would take processor time from the processes we wait for
	defer tick.Stop()
	for {
		for name, ok := range right {
			answer, err := b.dig(name)
			if err == nil && took[name] == 0 && ok(answer) {
				took[name] = time.Since(began)
			}
			if time.Since(began) > b.limit {
				return nil, fmt.Errorf("after %s %s is answered with %q, %v", b.limit, name, answer, err) //nolint:errorlint // it may be nil
			}
		}
		if len(took) == len(right) {
			return took, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
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

func (b *bench) percentiles(what string, all []time.Duration) {
	slices.Sort(all)
	at := func(p float64) string { return round(all[min(len(all)-1, int(p*float64(len(all))))]) }
	b.row(what, at(0.5), at(0.99), round(all[len(all)-1]), fmt.Sprintf("%d changes", len(all)))
}

func round(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
