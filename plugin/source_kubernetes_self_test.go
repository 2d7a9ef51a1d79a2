package clusterset

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/kube"
)

func TestGlueIsOfServicesThatLeadFromPort53ToTheServer(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
	}
	endpoint := func(name string, number *int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: number, Protocol: &protocol}
	}
	dns := []corev1.ServicePort{port("dns", 53, corev1.ProtocolUDP), port("dns-tcp", 53, corev1.ProtocolTCP)}
	for _, c := range []struct {
		name  string
		ports []corev1.ServicePort
		to    []discoveryv1.EndpointPort
		want  bool
	}{
		{"port 53", dns, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](1053), corev1.ProtocolUDP)}, true},
		{"every port", dns, []discoveryv1.EndpointPort{endpoint("dns", nil, corev1.ProtocolUDP)}, true},
		{"another server block's port", dns, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](2053), corev1.ProtocolUDP)}, false},
		{"TCP alone", dns, []discoveryv1.EndpointPort{endpoint("dns-tcp", ptr.To[int32](1053), corev1.ProtocolTCP)}, false},
		{"another port of the Service", dns, []discoveryv1.EndpointPort{endpoint("metrics", ptr.To[int32](1053), corev1.ProtocolUDP)}, false},
		{"another number than 53", []corev1.ServicePort{port("dns", 5353, corev1.ProtocolUDP)}, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](1053), corev1.ProtocolUDP)}, false},
		{"no port", nil, nil, false},
	} {
		f := front{
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: c.ports, ClusterIPs: []string{"10.96.0.10", "fd00::10"}}},
			&discoveryv1.EndpointSlice{Ports: c.to},
		}
		self := selfAddrs{}
		missing := findGlue([]selfGlue{{&self, "1053", nil}}, []front{f})
		if found := len(self.load()) == 2; found != c.want || found == (len(missing) == 1) {
			t.Errorf("%s: found %v, want %v; missing %v", c.name, found, c.want, missing)
		}
	}
}

// Secondaries transfer the name server's addresses, so that a change of these needs a new serial. Rule A52 of docs/spec/answers.md.
func TestOtherGlueHasANewSerial(t *testing.T) {
	x := index.New(index.Options{})
	x.Publish()
	blocks := []selfGlue{{&selfAddrs{}, "1053", x}}
	blocks[0].addrs.storeFirst([]netip.Addr{netip.MustParseAddr("10.1.0.1")})
	serial := x.Snapshot().Serial()
	for _, c := range []struct {
		ips     []string
		changed uint32
	}{
		{[]string{"10.96.0.10", "fd00::10"}, 1},
		{[]string{"fd00::10", "10.96.0.10"}, 0},
		{nil, 0},
		{[]string{"10.96.0.11"}, 1},
	} {
		findGlue(blocks, []front{{
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}, ClusterIPs: c.ips}},
			&discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP)}}},
		}})
		if got := x.Snapshot().Serial(); got != serial+c.changed {
			t.Errorf("%v: the serial goes from %d to %d", c.ips, serial, got)
		}
		serial = x.Snapshot().Serial()
	}
}

// A Service that is created again has another address. Rule A14 of docs/spec/answers.md.
func TestTheGlueFollowsARecreatedService(t *testing.T) {
	dir, namespaceWas, againWas := t.TempDir(), namespaceFile, selfAgain
	namespaceFile, selfAgain = filepath.Join(dir, "namespace"), time.Millisecond
	defer func() { namespaceFile, selfAgain = namespaceWas, againWas }()
	if err := os.WriteFile(namespaceFile, []byte("n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ip atomic.Pointer[string]
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			fmt.Fprintf(w, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList","items":[{"metadata":{"labels":{"kubernetes.io/service-name":"s"}},
				"endpoints":[{"addresses":[%q]}],"ports":[{"name":"dns","protocol":"UDP","port":1053}]}]}`, interfaceAddrs()[0])
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Service","spec":{"clusterIPs":[%q],"ports":[{"name":"dns","protocol":"UDP","port":53}]}}`, *ip.Load())
	}))
	defer api.Close()
	x := index.New(index.Options{})
	x.Publish()
	self := &selfAddrs{}
	f := &kubernetesFeed{config: &rest.Config{Host: api.URL}, client: api.Client(), self: []selfGlue{{self, "1053", x}}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, want := range []string{"10.96.0.10", "10.96.0.11"} {
		ip.Store(&want)
		if want == "10.96.0.10" {
			wg.Go(func() { f.findSelf(ctx) })
		}
		kube.Eventually(t, func() error {
			if got := self.load(); len(got) != 1 || got[0].String() != want {
				return fmt.Errorf("the glue is %v, want %s", got, want)
			}
			return nil
		})
	}
}

func TestBoundAddressesDoNotReplaceAServices(t *testing.T) {
	bound, service := []netip.Addr{netip.MustParseAddr("127.0.0.1")}, []netip.Addr{netip.MustParseAddr("10.96.0.10")}
	self := selfAddrs{}
	self.storeFirst(bound)
	self.store(service)
	self.storeFirst(bound)
	if got := self.load(); len(got) != 1 || got[0] != service[0] {
		t.Errorf("got %v, want %v", got, service)
	}
}
