package docs

import (
	"context"

	"github.com/clusterset/clusterset/api/crds"
)

// fabdns creates in guangzhou what FabDNS leaves in a cluster: its CRD, a GlobalService as service-hub writes it, and a Service
// that a user has marked for export.
func fabdns(w *world) error {
	objects := append(crds.All(), []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: fabedge}
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
`))
	return w.nodes[2].plane.ApplyContext(context.Background(), objects...)
}
