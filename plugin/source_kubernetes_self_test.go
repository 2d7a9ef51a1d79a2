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
	for _, c := range []struct {
		name     string
		port     int32 // of the Service's UDP port dns, 0 for none
		to       string
		number   int32 // of the slice's port, 0 for all
		protocol corev1.Protocol
		want     bool
	}{
		{"port 53", 53, "dns", 1053, corev1.ProtocolUDP, true},
		{"every port", 53, "dns", 0, corev1.ProtocolUDP, true},
		{"another server block's port", 53, "dns", 2053, corev1.ProtocolUDP, false},
		{"TCP alone", 53, "dns-tcp", 1053, corev1.ProtocolTCP, false},
		{"another port of the Service", 53, "metrics", 1053, corev1.ProtocolUDP, false},
		{"another number than 53", 5353, "dns", 1053, corev1.ProtocolUDP, false},
		{"no port", 0, "", 0, "", false},
	} {
		f := front{&corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10", "fd00::10"}}}, &discoveryv1.EndpointSlice{}}
		if c.port != 0 {
			f.service.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: c.port, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: c.port, Protocol: corev1.ProtocolTCP}}
			f.slice.Ports = []discoveryv1.EndpointPort{{Name: &c.to, Protocol: &c.protocol}}
		}
		if c.number != 0 {
			f.slice.Ports[0].Port = &c.number
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
	bound := blocks[0].addrs.load()
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
	blocks[0].addrs.storeFirst(bound)
	if got := blocks[0].addrs.load(); len(got) != 1 || got[0] == bound[0] {
		t.Errorf("bound addresses replace a Service's: %v", got)
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
