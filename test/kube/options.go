package kube

import "io"

type options struct {
	release           Release
	controllerManager bool
	proxy             bool
	serviceCIDRs      []string
	apiserverArgs     []string
	etcdArgs          []string
	env               []string
	progress          io.Writer
}

// Option changes how a control plane is launched, and what [Build] builds for it.
type Option func(*options)

func newOptions(opts []Option) options {
	o := options{serviceCIDRs: []string{"10.96.0.0/16"}, progress: io.Discard}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// IncludeProxy also builds kube-proxy, which only test/datapath runs.
func IncludeProxy() Option {
	return func(o *options) { o.proxy = true }
}

// WithControllerManager also runs kube-controller-manager: it garbage-collects owned objects, empties deleted namespaces, and creates the tokens
// of service accounts, the EndpointSlices of Services with a selector, the Pods of StatefulSets, and the rules of aggregated ClusterRoles.
//
// Without it none of that happens, and no Pod is admitted unless the test
// creates its service account or disables the ServiceAccount admission plugin.
func WithControllerManager() Option {
	return func(o *options) { o.controllerManager = true }
}

// WithServiceCIDRs sets the ranges of ClusterIPs, the primary family first. The default is 10.96.0.0/16; "10.96.0.0/16", "fd00:10:96::/112"
// makes the cluster dual-stack.
func WithServiceCIDRs(cidrs ...string) Option {
	return func(o *options) { o.serviceCIDRs = cidrs }
}

// WithAPIServerArgs adds flags to kube-apiserver's, such as "--audit-log-path=…". A flag given here overrides the default; one that takes a list
// adds to it.
func WithAPIServerArgs(args ...string) Option {
	return func(o *options) { o.apiserverArgs = append(o.apiserverArgs, args...) }
}

// WithEtcdArgs adds flags to etcd's, such as "--quota-backend-bytes=…". A flag given here overrides the default.
func WithEtcdArgs(args ...string) Option {
	return func(o *options) { o.etcdArgs = append(o.etcdArgs, args...) }
}

// WithEnv adds to the environment of etcd and the API server, such as "GOMAXPROCS=2". A variable given here overrides the default.
func WithEnv(env ...string) Option {
	return func(o *options) { o.env = append(o.env, env...) }
}

// WithRelease runs the API server and the controller manager of a pinned release of Kubernetes. etcd and kube-proxy are always the newest.
func WithRelease(r Release) Option {
	return func(o *options) { o.release = r }
}

// WithProgress makes [Launch] and [Build] report to w what they compile, if anything.
func WithProgress(w io.Writer) Option {
	return func(o *options) { o.progress = w }
}
