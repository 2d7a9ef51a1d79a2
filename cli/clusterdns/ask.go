package clusterdns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/objects"
)

// Reply is a DNS server's reply to the query for dns-version.<zone>. Every zone of ours, and hardly any other, has a TXT record there
// (the Kubernetes DNS specification, 2.2).
type Reply struct {
	Zone string
	// Texts are the TXT records. There are none with an Err.
	Texts []string
	// NotFound: there is no such name. Timeout: the server didn't reply.
	NotFound, Timeout bool
	Err               error
}

// Ours reports whether it is the reply of a clusterset server.
func (r *Reply) Ours() bool { return slices.Contains(r.Texts, "1.0.0") }

// Ask queries a server at an address for each zone. network is udp, with TCP for what is too long, or tcp.
func Ask(ctx context.Context, network, server string, zones []string) (all []Reply) {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, over, _ string) (net.Conn, error) {
		if network == "tcp" {
			over = network
		}
		return (&net.Dialer{}).DialContext(ctx, over, server)
	}}
	for _, zone := range zones {
		r := Reply{Zone: zone}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		r.Texts, r.Err = resolver.LookupTXT(ctx, "dns-version."+zone+".")
		cancel()
		var dns *net.DNSError
		if errors.As(r.Err, &dns) {
			r.NotFound, r.Timeout = dns.IsNotFound, dns.IsTimeout || strings.Contains(dns.Err, "connection refused")
		}
		all = append(all, r)
	}
	return all
}

// AskPods queries each ready pod of the cluster's DNS.
func (p *Place) AskPods(ctx context.Context, c *objects.Cluster, zones []string, replies map[string][]Reply) error {
	namespace, labels := metav1.NamespaceSystem, client.MatchingLabels{"k8s-app": "kube-dns"}
	if p.Key == openShiftKey {
		namespace, labels = "openshift-dns", client.MatchingLabels{"dns.operator.openshift.io/daemonset-dns": "default"}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
		return c.Words(err)
	}
	isReady := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !slices.ContainsFunc(pod.Status.Conditions, isReady) {
			continue
		}
		all, err := askPod(ctx, c.Config, pod, zones)
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, c.Explain(err))
		}
		replies["pod "+pod.Name] = all
	}
	return nil
}

// askPod queries a pod through the API server, which forwards TCP connections.
func askPod(ctx context.Context, config *rest.Config, pod *corev1.Pod, zones []string) ([]Reply, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	url := clients.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	port := []string{fmt.Sprintf("0:%d", portOf(pod))}
	f, err := portforward.NewOnAddressesWithContext(ctx, dialer, []string{"127.0.0.1"}, port, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return nil, err
	}
	ports, err := f.GetPorts()
	if err != nil {
		return nil, err
	}
	return Ask(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local), zones), nil
}

// portOf is where a pod answers over TCP. OpenShift's and ours don't at 53.
func portOf(pod *corev1.Pod) int32 {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == "dns-tcp" {
				return p.ContainerPort
			}
		}
	}
	return 53
}
