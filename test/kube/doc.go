// Package kube runs a real Kubernetes control plane, etcd and kube-apiserver
// and, when asked, kube-controller-manager, on the loopback interface, so that
// tests see what a fake client only guesses at: watches that break and resume,
// conflicts, admission, RBAC, server-side apply, garbage collection.
//
// Nothing is downloaded but Go modules: the module in ./controlplane pins the
// three programs, and kube-proxy, as Go tools and [Build] compiles those that
// are wanted once into the user's cache. That takes minutes; run "go run ./test/kube/build" to have it done,
// and seen, before the tests start. After that [Start] takes seconds.
//
// A test calls [Start]; a program without a testing.TB (make demo, TestMain)
// calls [Launch] and [ControlPlane.Stop]. Several control planes run side by
// side in one process: a hub and its members.
//
// There is no kubelet and no scheduler: a Pod stays Pending until the test
// writes its status, and counts as an endpoint only if its spec.nodeName names
// a Node that the test has created.
package kube
