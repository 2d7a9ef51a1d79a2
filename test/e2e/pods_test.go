package e2e

import "fmt"

// pod makes a pod that looks to the endpointslice controller as if a kubelet ran it: a pod of a StatefulSet, behind a
// headless Service, on a node in the member's zone. It needs a member with controllers.
func (m *member) pod(ns, name, service, ip string) {
	m.Helper()
	if !m.controllers {
		m.Fatalf("%s has no controllers: nobody would make a slice of the pod", m.name)
	}
	m.apply(fmt.Sprintf(`
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
`, m.zone, m.zone, m.region, ns, name, service, m.zone, name, service))
	m.podStatus(ns, name, ip, true)
	pods[ns+"/"+name] = ip
}

// pods are the addresses of those pods.
var pods = map[string]string{}

// podReady changes a pod's readiness.
func (m *member) podReady(ns, name string, ready bool) {
	m.Helper()
	m.podStatus(ns, name, pods[ns+"/"+name], ready)
}

func (m *member) podStatus(ns, name, ip string, ready bool) {
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
