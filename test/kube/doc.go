// Package kube runs a real Kubernetes control plane on the loopback interface: etcd, kube-apiserver and, on request, kube-controller-manager.
// Tests see what a fake client can only imitate: watches that break and resume, conflicts, admission, RBAC, server-side apply, garbage
// collection.
//
// Only Go modules are downloaded: the module in ./controlplane pins the three programs and kube-proxy as Go tools. [Build] compiles the ones
// that are needed, once, into the user's cache. That takes minutes; "go run ./test/kube/build" does it before the tests start, and shows its
// progress. After that [Start] takes seconds.
//
// The module in ./oldest pins the API server and the controller manager of the oldest release of Kubernetes that we support. [WithRelease] runs
// a single control plane of it. CLUSTERSET_KUBE_RELEASE=oldest applies to all control planes without that option.
//
// A test calls [Start]; a program without a testing.TB (make demo, TestMain) calls [Launch] and [ControlPlane.Stop]. One process can run several
// control planes at the same time: a hub and its members.
//
// There is no kubelet and no scheduler: a Pod stays Pending until the test writes its status, and counts as an endpoint only if its
// spec.nodeName names a Node that the test has created.
package kube
