package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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

func (n *network) at(ip string) string {
	n.Lock()
	defer n.Unlock()
	return n.served[ip]
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
		return n.report(ctx, d, 0)
	}
	dir := filepath.Join(n.dir, strings.ReplaceAll(key, "/", "-"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	mounts, text, err := n.mount(ctx, d, dir)
	if err != nil || mounts == nil {
		return errors.Join(err, n.report(ctx, d, 0)) // the pod waits for its volumes
	}
	of, err := json.Marshal([]any{d.Spec.Template.Spec, d.Spec.Template.Annotations, n.localised(text)})
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
	return n.report(ctx, d, ready)
}

// mount writes a Deployment's volumes as the kubelet does, and returns their folders by the pod's paths, or nil if a volume doesn't
// exist yet. It returns a ConfigMap's Corefile instead of writing it, because start has to adapt it first.
func (n *node) mount(ctx context.Context, d *appsv1.Deployment, dir string) (folders map[string]string, corefile string, err error) {
	folders = map[string]string{}
	volumes := map[string]corev1.Volume{}
	for _, v := range d.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
		v := volumes[m.Name]
		folder := filepath.Join(dir, m.Name)
		files := map[string][]byte{}
		switch {
		case v.ConfigMap != nil:
			c, err := n.clients.CoreV1().ConfigMaps(d.Namespace).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, "", nil
			}
			if err != nil {
				return nil, "", err
			}
			corefile = c.Data["Corefile"]
		case v.Secret != nil:
			s, err := n.clients.CoreV1().Secrets(d.Namespace).Get(ctx, v.Secret.SecretName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, "", nil
			}
			if err != nil {
				return nil, "", err
			}
			files = s.Data
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, "", err
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
				return nil, "", err
			}
		}
		folders[m.MountPath] = folder
	}
	return folders, corefile, nil
}

var forwardRE = regexp.MustCompile(`(?m)^(\s*forward \S+) (\S+)`)

// localised replaces the servers to which a Corefile forwards with the addresses that really serve them.
func (n *node) localised(corefile string) string {
	return forwardRE.ReplaceAllStringFunc(corefile, func(line string) string {
		m := forwardRE.FindStringSubmatch(line)
		if at := n.net.at(m[2]); at != "" {
			return m[1] + " " + at
		}
		return m[1] + " 127.0.0.1:9" // nothing listens there
	})
}

func (n *node) start(d *appsv1.Deployment, dir string, folders map[string]string, corefile string) (*pod, error) {
	if err := build(); err != nil {
		return nil, err
	}
	user := "system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName
	kubeconfig, err := n.plane.KubeconfigFor(user, "system:serviceaccounts", "system:serviceaccounts:"+d.Namespace)
	if err != nil {
		return nil, err
	}
	ports, err := freeport.Several(4)
	if err != nil {
		return nil, err
	}
	p := &pod{}
	name := programOf(d)
	var args []string
	if name == "coredns" {
		path := filepath.Join(dir, "Corefile")
		text := onLoopback(n.localised(corefile), kubeconfig, ports)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		args = []string{"-conf", path, "-dns.port", ports[0]}
		p.probe, p.address = "http://127.0.0.1:"+ports[1]+"/ready", "127.0.0.1:"+ports[0]
	} else {
		c := d.Spec.Template.Spec.Containers[0]
		args = append(slices.Clone(c.Command[1:]), c.Args...)
		for i := range args {
			for path, folder := range folders {
				args[i] = strings.ReplaceAll(args[i], path, folder)
			}
		}
		args = append(args, "--kubeconfig", kubeconfig, "--leader-elect-namespace", d.Namespace,
			"--metrics-bind-address", "127.0.0.1:"+ports[2], "--health-probe-bind-address", "127.0.0.1:"+ports[1])
		p.probe = "http://127.0.0.1:" + ports[1] + "/readyz"
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

var (
	zonePortRE = regexp.MustCompile(`:(53|1053)\b`)
	kubeRE     = regexp.MustCompile(`(?m)^( *)(clusterset|kubernetes)( [^{\n]*)?\{$`)
	headRE     = regexp.MustCompile(`(?m)^(\S[^{\n]*)\{$`)
)

// onLoopback adapts a Corefile to this machine: ports[0] is for DNS, [1] for ready, [2] for prometheus and [3] for health.
func onLoopback(text, kubeconfig string, ports []string) string {
	text = headRE.ReplaceAllStringFunc(text, func(head string) string {
		return zonePortRE.ReplaceAllString(head, ":"+ports[0]) + "\n    bind 127.0.0.1"
	})
	text = regexp.MustCompile(`(?m)^( *)ready\b( :\d+)?`).ReplaceAllString(text, "${1}ready 127.0.0.1:"+ports[1])
	text = regexp.MustCompile(`(?m)^( *)health( :\d+)?`).ReplaceAllString(text, "${1}health 127.0.0.1:"+ports[3])
	text = regexp.MustCompile(`prometheus :\d+`).ReplaceAllString(text, "prometheus 127.0.0.1:"+ports[2])
	text = regexp.MustCompile(`(?m)^ *loop\n`).ReplaceAllString(text, "") // loop queries its own upstream, which doesn't exist here
	return kubeRE.ReplaceAllString(text, "${0}\n${1}    kubeconfig "+kubeconfig)
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
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.probe, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false
	}
	if p.address == "" {
		return true
	}
	c, err := net.Dial("tcp", p.address) // CoreDNS is ready a moment before it listens
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// report writes a Deployment's status.
func (n *node) report(ctx context.Context, d *appsv1.Deployment, ready int32) error {
	replicas := *d.Spec.Replicas
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready,
		UnavailableReplicas: replicas - ready, Conditions: d.Status.Conditions,
	}
	old, err := json.Marshal(d.Status)
	if err != nil {
		return err
	}
	if text, err := json.Marshal(status); err != nil || bytes.Equal(text, old) {
		return err
	}
	d = d.DeepCopy()
	d.Status = status
	_, err = n.clients.AppsV1().Deployments(d.Namespace).UpdateStatus(ctx, d, metav1.UpdateOptions{})
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
			if p == nil || p.address == "" || d.Namespace != s.Namespace || !selects(s.Spec.Selector, d.Spec.Template.Labels) || !p.ready(ctx) {
				continue
			}
			n.net.set(s.Spec.ClusterIP, p.address)
		}
	}
	return nil
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}
