package docs

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/crds"
)

// fabdns creates in guangzhou what FabDNS leaves in a cluster: its CRD, GlobalServices in two namespaces as service-hub writes them,
// and the Services, which a user has marked for export.
func fabdns(w *world) error {
	ctx, guangzhou := context.Background(), w.nodes[2]
	// An earlier page uninstalled clusterset there. The namespace controller, which the world hasn't, would have removed the namespace.
	namespaces := guangzhou.clients.CoreV1().Namespaces()
	system, err := namespaces.Get(ctx, api.SystemNamespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	system.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, system, metav1.UpdateOptions{}); err != nil {
		return err
	}
	objects := append(crds.All(), []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata:
  namespace: default
  name: nginx
  labels: {fabedge.io/created-by: service-hub, fabedge.io/origin-resource-version: "4711"}
spec:
  type: ClusterIP
  ports: [{name: default, port: 80, protocol: TCP}]
  endpoints:
  - {addresses: [192.0.2.10], cluster: guangzhou, zone: guangzhou, region: south}
  - {addresses: [192.0.2.20], cluster: shenzhen, zone: shenzhen, region: south}
---
apiVersion: v1
kind: Service
metadata:
  namespace: default
  name: nginx
  labels: {fabedge.io/global-service: "true"}
spec:
  clusterIP: 10.98.20.30
  selector: {app: nginx}
  ports: [{name: default, port: 80}]
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata:
  namespace: shop
  name: cart
  labels: {fabedge.io/created-by: service-hub, fabedge.io/origin-resource-version: "4712"}
spec:
  type: ClusterIP
  ports: [{name: default, port: 80, protocol: TCP}]
  endpoints:
  - {addresses: [192.0.2.11], cluster: guangzhou, zone: guangzhou, region: south}
---
apiVersion: v1
kind: Service
metadata:
  namespace: shop
  name: cart
  labels: {fabedge.io/global-service: "true"}
spec:
  clusterIP: 10.98.20.31
  selector: {app: cart}
  ports: [{name: default, port: 80}]
`))
	return guangzhou.plane.ApplyContext(ctx, objects...)
}
