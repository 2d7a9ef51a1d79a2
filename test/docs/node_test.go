package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// node does for a cluster what its controllers and kubelets would. It runs the Deployments whose programs are in this repository,
// as one process each, with the account and the files that the pod would have, and updates the Deployments' status. A process
// stands for all the Deployment's pods. Deployments of other programs get no pods.
type node struct {
	name    string
	plane   *kube.ControlPlane
	clients kubernetes.Interface
	dir     string
	net     *network

	mu   sync.Mutex
	pods map[string]*pod // by the Deployment's namespace and name
}

// pod is a running process.
type pod struct {
	of string // the spec that it was started from; another spec starts another process
	*process.Process
	probe   string // URL of its readiness probe
	address string // where it serves DNS; empty for agents
}

// network maps a Service's address to the address that really serves it.
type network struct {
	sync.Mutex
	path   string // the file that dig reads
	served map[string]string
}

// at returns the address that serves in place of an IP.
func (n *network) at(ip string) string {
	n.Lock()
	defer n.Unlock()
	if at := n.served[ip]; at != "" {
		return at
	}
	return corefile.Nowhere(ip)
}

func (n *network) set(ip, address string) {
	n.Lock()
	defer n.Unlock()
	if n.served[ip] == address {
		return
	}
	n.served[ip] = address
	var text strings.Builder
	for ip, address := range n.served {
		fmt.Fprintf(&text, "%s %s\n", ip, address)
	}
	_ = os.WriteFile(n.path+".new", []byte(text.String()), 0o600)
	_ = os.Rename(n.path+".new", n.path) // atomically, because dig may be reading
}

// run reconciles the cluster until ctx ends, and then stops all processes.
func (n *node) run(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var said string
	if err := n.plane.Kubelet(ctx, n.name, n.dns); err != nil {
		fmt.Fprintf(os.Stderr, "node of %s: %v\n", n.name, err)
	}
	defer func() {
		for _, p := range n.pods {
			p.stop()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// An error is retried, but printed only once.
		if err := n.sync(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			fmt.Fprintf(os.Stderr, "node of %s: %v\n", n.name, err)
		}
	}
}

func (n *node) sync(ctx context.Context) error {
	list, err := n.clients.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	wanted := map[string]bool{}
	for i := range list.Items {
		d := &list.Items[i]
		if programOf(d) == "" {
			continue
		}
		wanted[d.Namespace+"/"+d.Name] = true
		errs = append(errs, n.deployment(ctx, d))
	}
	for key, p := range n.pods {
		if !wanted[key] {
			p.stop()
			delete(n.pods, key)
		}
	}
	return errors.Join(append(errs, n.services(ctx, list.Items))...)
}

// programOf returns the program of this repository that a Deployment runs, or "".
func programOf(d *appsv1.Deployment) string {
	c := d.Spec.Template.Spec.Containers[0]
	switch {
	case strings.Contains(c.Image, "clusterset") && len(c.Command) > 0:
		return strings.TrimPrefix(c.Command[0], "/")
	case strings.Contains(c.Image, "coredns"):
		return "coredns"
	}
	return ""
}

func (n *node) deployment(ctx context.Context, d *appsv1.Deployment) error {
	key := d.Namespace + "/" + d.Name
	p := n.pods[key]
	if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		if p != nil {
			p.stop()
			delete(n.pods, key)
		}
		return errors.Join(n.report(ctx, d, 0), n.show(ctx, d, false))
	}
	dir := filepath.Join(n.dir, strings.ReplaceAll(key, "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mounts, text, err := n.mount(ctx, d, dir)
	if err != nil || mounts == nil {
		return errors.Join(err, n.report(ctx, d, 0)) // the pod waits for its volumes
	}
	of, err := json.Marshal([]any{d.Spec.Template.Spec, d.Spec.Template.Annotations, corefile.Forward(text, n.net.at)})
	if err != nil {
		return err
	}
	if p == nil || p.of != string(of) || !p.Running() {
		if p != nil {
			p.stop()
		}
		if p, err = n.start(d, dir, mounts, text); err != nil {
			return err
		}
		p.of = string(of)
		n.pods[key] = p
	}
	ready := int32(0)
	if p.ready(ctx) {
		ready = *d.Spec.Replicas
	}
	return errors.Join(n.report(ctx, d, ready), n.show(ctx, d, ready > 0))
}

// show gives the cluster DNS a Pod, which clusterset dns asks. Other Deployments have none.
func (n *node) show(ctx context.Context, d *appsv1.Deployment, ready bool) error {
	if d.Namespace != metav1.NamespaceSystem || d.Name != "coredns" {
		return nil
	}
	pods := n.clients.CoreV1().Pods(d.Namespace)
	if !ready {
		err := pods.Delete(ctx, d.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	pod.Spec.NodeName = n.name
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// dns returns where the cluster DNS answers.
func (n *node) dns(string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.pods["kube-system/coredns"]; p != nil {
		return p.address
	}
	return corefile.Nowhere("")
}

// mount writes a Deployment's volumes as the kubelet does, and returns their folders by the pod's paths, or nil if a volume doesn't
// exist yet. It returns a ConfigMap's Corefile instead of writing it, because start has to adapt it first.
func (n *node) mount(ctx context.Context, d *appsv1.Deployment, dir string) (folders map[string]string, text string, err error) {
	folders = map[string]string{}
	for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
		folders[m.MountPath] = filepath.Join(dir, m.Name)
		i := slices.IndexFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		files := map[string][]byte{}
		switch v := d.Spec.Template.Spec.Volumes[i]; {
		case v.ConfigMap != nil:
			var c *corev1.ConfigMap
			if c, err = n.clients.CoreV1().ConfigMaps(d.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{}); err == nil {
				text = c.Data["Corefile"]
			}
		case v.Secret != nil:
			var s *corev1.Secret
			if s, err = n.clients.CoreV1().Secrets(d.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{}); err == nil {
				files = s.Data
			}
		}
		if apierrors.IsNotFound(err) {
			return nil, "", nil
		}
		err = errors.Join(err, os.MkdirAll(folders[m.MountPath], 0o700))
		for name, content := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(folders[m.MountPath], name), content, 0o600))
		}
		if err != nil {
			return nil, "", err
		}
	}
	return folders, text, nil
}

func (n *node) start(d *appsv1.Deployment, dir string, folders map[string]string, text string) (*pod, error) {
	if err := build(); err != nil {
		return nil, err
	}
	user := "system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName
	kubeconfig, err := n.plane.KubeconfigFor(user, "system:serviceaccounts", "system:serviceaccounts:"+d.Namespace)
	if err != nil {
		return nil, err
	}
	p := &pod{}
	name := programOf(d)
	var args []string
	if name == "coredns" {
		local, err := corefile.Adapt(text, kubeconfig, n.net.at)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "Corefile")
		if err := os.WriteFile(path, []byte(local.Text), 0o600); err != nil {
			return nil, err
		}
		args = []string{"-conf", path, "-dns.port", local.Port}
		p.probe, p.address = local.Probe, local.DNS
	} else {
		probe, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		c := d.Spec.Template.Spec.Containers[0]
		args = append(slices.Clone(c.Command[1:]), c.Args...)
		for i := range args {
			for path, folder := range folders {
				args[i] = strings.ReplaceAll(args[i], path, folder)
			}
		}
		args = append(args, "--kubeconfig", kubeconfig, "--leader-elect-namespace", d.Namespace,
			"--metrics-bind-address", "0", "--health-probe-bind-address", "127.0.0.1:"+probe)
		p.probe = "http://127.0.0.1:" + probe + "/readyz"
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, name), args...)
	cmd.Env = environment(d)
	p.Process, err = process.StartWithLog(cmd, filepath.Join(dir, "log"))
	return p, err
}

func environment(d *appsv1.Deployment) []string {
	env := []string{"HOME=" + os.TempDir()}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom == nil { // the nodes have no labels
			env = append(env, e.Name+"="+e.Value)
		}
	}
	return env
}

// stop ends an agent gracefully, so that a leader releases its Lease. It waits 10 s at most. DNS servers are killed.
func (p *pod) stop() {
	if p.address != "" {
		p.Kill() // it would continue for its lameduck time
	}
	p.Stop(10 * time.Second)
}

func (p *pod) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if corefile.Ready(ctx, p.probe) != nil {
		return false
	}
	if p.address == "" {
		return true
	}
	c, err := net.Dial("tcp", p.address) // CoreDNS is ready a moment before it listens
	return err == nil && c.Close() == nil
}

// report writes a Deployment's status.
func (n *node) report(ctx context.Context, d *appsv1.Deployment, ready int32) error {
	replicas := *d.Spec.Replicas
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready,
		UnavailableReplicas: replicas - ready, Conditions: d.Status.Conditions,
	}
	if equality.Semantic.DeepEqual(status, d.Status) {
		return nil
	}
	d = d.DeepCopy()
	d.Status = status
	_, err := n.clients.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
	return err
}

// services registers a ready server with the network for each DNS Service that selects it.
func (n *node) services(ctx context.Context, deployments []appsv1.Deployment) error {
	list, err := n.clients.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		for _, d := range deployments {
			p := n.pods[d.Namespace+"/"+d.Name]
			if p != nil && p.address != "" && d.Namespace == s.Namespace && len(s.Spec.Selector) > 0 &&
				labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) && p.ready(ctx) {
				n.net.set(s.Spec.ClusterIP, p.address)
			}
		}
	}
	return nil
}
