package kube

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Kubelet starts what a kubelet does for kubectl port-forward, on a Node of that name, until ctx ends. address is where the ports of a pod
// really are.
func (c *ControlPlane) Kubelet(ctx context.Context, node string, address func(pod string) string) error {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // at /portForward/namespace/pod
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		pod := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			go forward(ctx, s, address(pod))
			return nil
		})
		if connection != nil {
			<-connection.CloseChan()
		}
	}))
	context.AfterFunc(ctx, server.CloseClientConnections)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	n, err := clients.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	_, err = clients.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// forward copies what a stream for data has. Each connection has one for errors too, which is closed: there are none.
func forward(ctx context.Context, s httpstream.Stream, address string) {
	defer func() { _ = s.Close() }()
	if s.Headers().Get("streamType") != "data" {
		return
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		_ = s.Reset()
		return
	}
	go func() { _, _ = io.Copy(conn, s); _ = conn.Close() }()
	_, _ = io.Copy(s, conn)
}
