package kube_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/test/kube"
)

func TestControllerManager(t *testing.T) {
	t.Parallel()
	cp := kube.Start(t, kube.WithControllerManager())
	c := client(t, cp.Config())
	cp.Apply(t, []byte(namespaceAndSlice))

	configMap := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		cm, err := c.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cm
	}
	owner := configMap("owner")
	configMap("owned", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID})

	t.Run("garbage-collects what a deleted object owned", func(t *testing.T) {
		if err := c.CoreV1().ConfigMaps("shop").Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error {
			_, err := c.CoreV1().ConfigMaps("shop").Get(t.Context(), "owned", metav1.GetOptions{})
			return wantNotFound(err)
		})
	})

	t.Run("makes EndpointSlices for a Service's Pods", func(t *testing.T) {
		cp.Apply(t, []byte(podAndService))
		cp.ApplyStatus(t, []byte(podStatus))
		kube.Eventually(t, func() error {
			slices, err := c.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=api"})
			if err != nil {
				return err
			}
			for _, s := range slices.Items {
				for _, e := range s.Endpoints {
					if e.Addresses[0] == "10.1.0.9" && *e.Conditions.Ready && *e.Zone == "z1" {
						return nil
					}
				}
			}
			return fmt.Errorf("no ready endpoint 10.1.0.9 of zone z1 in %v", slices.Items)
		})
	})

	t.Run("empties and removes a deleted namespace", func(t *testing.T) {
		cp.Delete(t, []byte(namespaceAndSlice))
		// A pod on a node is removed only once its kubelet confirms, and this node has none.
		if err := c.CoreV1().Pods("shop").Delete(t.Context(), "api-0", *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error {
			_, err := c.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
			return wantNotFound(err)
		})
	})

	t.Run("does nothing once stopped, and goes on once started", func(t *testing.T) {
		cp.StopControllerManager()
		cp.Apply(t, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: late}}"))
		if err := cp.StartControllerManager(t.Context()); err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error {
			_, err := c.CoreV1().ServiceAccounts("late").Get(t.Context(), "default", metav1.GetOptions{})
			return err
		})
	})
}

const podAndService = `
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec:
  selector: {app: api}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Pod
metadata:
  name: api-0
  namespace: shop
  labels: {app: api}
spec:
  nodeName: node-1
  containers: [{name: api, image: api}]
`

const podStatus = `
apiVersion: v1
kind: Pod
metadata: {name: api-0, namespace: shop}
status:
  podIPs: [{ip: 10.1.0.9}]
  podIP: 10.1.0.9
  phase: Running
  conditions: [{type: Ready, status: "True"}]
`

func wantNotFound(err error) error {
	switch {
	case err == nil:
		return errors.New("it still exists")
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}
