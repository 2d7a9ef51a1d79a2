package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset/clusterset/test/kube"
)

const namespaceAndSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: shop
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- {name: http, port: 8080, protocol: TCP}
endpoints:
- addresses: [10.1.0.7]
  zone: z1
---
# Written after what lies in it: Apply sorts that out.
apiVersion: v1
kind: Namespace
metadata:
  name: shop
`

func client(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sliceIsThere returns an error unless the slice of namespaceAndSlice is stored.
func sliceIsThere(ctx context.Context, c *kubernetes.Clientset) error {
	slice, err := c.DiscoveryV1().EndpointSlices("shop").Get(ctx, "web-1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "10.1.0.7" {
		return fmt.Errorf("endpoints are %v", slice.Endpoints)
	}
	return nil
}

func TestDataOutlivesTheAPIServer(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	c := client(t, cp.Config())
	cp.Apply(t, []byte(namespaceAndSlice))
	if err := sliceIsThere(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	url := cp.URL()

	for _, down := range []struct {
		name string
		stop func()
	}{
		{"stopped", cp.StopAPIServer},
		{"killed", cp.KillAPIServer},
	} {
		down.stop()
		if conn, err := net.Dial("tcp", strings.TrimPrefix(url, "https://")); err == nil {
			conn.Close()
			t.Errorf("something accepts connections on the port of the %s API server", down.name)
		}
		if err := cp.StartAPIServer(t.Context()); err != nil {
			t.Fatalf("start the %s API server: %v", down.name, err)
		}
		if got := cp.URL(); got != url {
			t.Errorf("the %s API server came back at %s, was at %s", down.name, got, url)
		}
		// An existing client still works, because the address and the CA are the same.
		if err := sliceIsThere(t.Context(), c); err != nil {
			t.Errorf("after the API server was %s: %v", down.name, err)
		}
	}
}

func TestAStoppedAPIServerEndsItsWatches(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	w, err := client(t, cp.Config()).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range w.ResultChan() {
		}
	}()
	cp.StopAPIServer()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the watch goes on though the API server has ended")
	}
}

func TestDataOutlivesEtcd(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	c := client(t, cp.Config())
	cp.Apply(t, []byte(namespaceAndSlice))

	cp.StopEtcd()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := c.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err == nil {
		t.Error("the API server is ready without etcd")
	}

	if err := cp.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { return sliceIsThere(t.Context(), c) })
}

func TestAUserHasOnlyTheRightsGranted(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t)
	cp.Apply(t, []byte(namespaceAndSlice), []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}
`))
	path, err := cp.KubeconfigFor("system:member/with odd name", "readers")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { return sliceIsThere(t.Context(), client(t, reader)) })

	for name, cfg := range map[string]*rest.Config{
		"a reader, elsewhere": reader,
		"a stranger":          cp.ConfigFor("stranger"),
	} {
		_, err := client(t, cfg).DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s listed EndpointSlices: want forbidden, got %v", name, err)
		}
	}

	anonymous := cp.Config()
	anonymous.CertData, anonymous.KeyData = nil, nil
	_, err = client(t, anonymous).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("an anonymous client listed namespaces: want forbidden, got %v", err)
	}
}

func TestTwoControlPlanesAtOnce(t *testing.T) {
	t.Parallel()
	hub := kube.Start(t)
	member := kube.Start(t, kube.WithServiceCIDRs("10.96.0.0/16", "fd00:10:96::/112"))
	member.Apply(t, []byte(namespaceAndSlice))

	if err := sliceIsThere(t.Context(), client(t, member.Config())); err != nil {
		t.Error(err)
	}
	if err := sliceIsThere(t.Context(), client(t, hub.Config())); !apierrors.IsNotFound(err) {
		t.Errorf("get the member's EndpointSlice from the hub: want not found, got %v", err)
	}

	// An administrator of one control plane has no rights in the other.
	cross := hub.Config()
	cross.Host = member.URL()
	cross.CAData = member.Config().CAData
	_, err := client(t, cross).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("the hub's administrator listed the member's namespaces: want unauthorized, got %v", err)
	}

	policy := corev1.IPFamilyPolicyRequireDualStack
	svc, err := client(t, member.Config()).CoreV1().Services("shop").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &policy, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, prefix := range []string{"10.96.0.0/16", "fd00:10:96::/112"} {
		if ip, err := netip.ParseAddr(svc.Spec.ClusterIPs[i]); err != nil || !netip.MustParsePrefix(prefix).Contains(ip) {
			t.Errorf("ClusterIPs are %v, want the number %d out of %s", svc.Spec.ClusterIPs, i, prefix)
		}
	}
}

func TestIPv6IsPrimaryWhenItsRangeIsFirst(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t, kube.WithServiceCIDRs("fd00:10:96::/112", "10.96.0.0/16"))
	svc, err := client(t, cp.Config()).CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ip, err := netip.ParseAddr(svc.Spec.ClusterIP); err != nil || !ip.Is6() {
		t.Errorf("the ClusterIP is %s, want one of IPv6", svc.Spec.ClusterIP)
	}
}

func TestAFailedLaunchSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd and kube-apiserver")
	}
	cp, err := kube.Launch(t.Context(), t.TempDir(), kube.WithAPIServerArgs("--authorization-mode=Whim"))
	if err == nil {
		cp.Stop()
		t.Fatal("the API server accepted an authorization mode that does not exist")
	}
	// The error must quote the API server, and not only report the timeout.
	if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not a valid mode") {
		t.Errorf("got %v", err)
	}
}
