package e2e

import (
	"fmt"

	"github.com/clusterset/clusterset/test/fleettest"
)

// pod creates a pod that looks to the endpointslice controller as if a kubelet ran it: a pod of a StatefulSet, behind a
// headless Service, on a node in the member's zone. It needs a member with controllers.
func pod(m *fleettest.Member, ns, name, service, ip string) {
	m.Helper()
	if !m.Spec.Controllers {
		m.Fatalf("%s has no controllers: nobody would make a slice of the pod", m.Spec.Name)
	}
	m.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: node-%s, labels: {topology.kubernetes.io/zone: %s, topology.kubernetes.io/region: %s}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {app: %s}}
spec:
  nodeName: node-%s
  hostname: %s
  subdomain: %s
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: example.invalid/c}]
`, m.Spec.Zone, m.Spec.Zone, m.Spec.Region, ns, name, service, m.Spec.Zone, name, service))
	podStatus(m, ns, name, ip, true)
	pods[ns+"/"+name] = ip
}

// pods has the addresses of these pods, by namespace/name.
var pods = map[string]string{}

// podReady changes a pod's readiness.
func podReady(m *fleettest.Member, ns, name string, ready bool) {
	m.Helper()
	podStatus(m, ns, name, pods[ns+"/"+name], ready)
}

func podStatus(m *fleettest.Member, ns, name, ip string, ready bool) {
	m.Helper()
	status := "False"
	if ready {
		status = "True"
	}
	m.Plane.ApplyStatus(m, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s}
status:
  phase: Running
  podIP: %s
  podIPs: [{ip: %s}]
  conditions: [{type: Ready, status: %q}]
`, ns, name, ip, ip, status))
}
