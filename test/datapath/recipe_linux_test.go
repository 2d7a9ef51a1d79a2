package datapath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
	"github.com/clusterset/clusterset/test/process"
)

// recipe is a page of docs/recipes, whose StatefulSet runs with one pod in each cluster. Kubernetes' own controllers make the pods and
// the EndpointSlices. The test does what a kubelet and cert-manager would. A pod is a network namespace with an address of its own, whose
// resolver is its cluster's DNS server, and its container a process with that namespace's network and a resolv.conf of its own.
type recipe struct {
	*testing.T
	w         *world
	program   []string // the path of the one that the container's command names, behind those that start it
	user      string   // whom the volumes belong to, if not root
	manifests []string
	authority *kube.Authority
	running   map[*cluster]*recipePod
	data      string // the folder of the volumes
	given     int    // pods' namespaces made so far
}

// recipePod is a pod that runs.
type recipePod struct {
	number  int // of its node in the network
	ns      *namespace
	process *process.Process
}

const (
	recipeNamespace = "shop"
	// firstRecipePod is above the numbers of the nodes that other tests make.
	firstRecipePod = 100
)

// yamlBlockRE finds the page's manifests.
var yamlBlockRE = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// recipe reads the page, and starts in every cluster what it needs: Kubernetes' controllers and a DNS server.
func (w *world) recipe(t *testing.T, page string, program ...string) *recipe {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "recipes", page))
	if err != nil {
		t.Fatal(err)
	}
	r := &recipe{T: t, w: w, program: program, data: t.TempDir(), running: map[*cluster]*recipePod{}}
	for _, block := range yamlBlockRE.FindAllStringSubmatch(string(text), -1) {
		r.manifests = append(r.manifests, strings.Split(block[1], "\n---\n")...)
	}
	if r.authority, err = kube.NewAuthority(); err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for _, c := range w.clusters {
		t.Cleanup(c.Plane.StopControllerManager)
		group.Go(func() error {
			return errors.Join(c.Plane.StartControllerManager(t.Context()), c.Plane.ApplyContext(t.Context(), fleet.Rights("dns")))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.clusters {
		r.startDNS(c)
	}
	return r
}

// startDNS starts the cluster's DNS server on its first node, until the end of the test.
func (r *recipe) startDNS(c *cluster) {
	r.Helper()
	kubeconfig, err := c.Plane.KubeconfigFor("clusterset-dns")
	if err != nil {
		r.Fatal(err)
	}
	base := filepath.Join(r.w.dir, c.Name+"-recipe-dns")
	corefile := fmt.Sprintf(".:53 {\n    bind %s\n    errors\n    clusterset clusterset.local {\n        kubeconfig %s\n        location %s\n    }\n}\n",
		node4(c.number, 1), kubeconfig, c.Location)
	if err := os.WriteFile(base+".Corefile", []byte(corefile), 0o600); err != nil {
		r.Fatal(err)
	}
	server := &fleet.Program{
		Name: "CoreDNS of " + c.Name, Path: c.nsenter, Log: base + ".log",
		Args: func() ([]string, error) {
			return []string{"--net=" + c.nodes[0].ns.path(), "--", r.w.bin.CoreDNS, "-conf", base + ".Corefile"}, nil
		},
		Up: func(ctx context.Context) error { // the zone's name server has no address until everything was read
			_, err := r.resolver(c).LookupHost(ctx, "ns.dns.clusterset.local")
			return err
		},
	}
	r.Cleanup(server.Kill)
	if err := server.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// resolver asks the cluster's DNS server from its first node, as a program in the cluster does.
func (*recipe) resolver(c *cluster) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return c.nodes[0].dialContext(ctx, network, net.JoinHostPort(node4(c.number, 1), "53"))
	}}
}

// dialer resolves a name in the cluster and dials its first address.
func (r *recipe) dialer(c *cluster) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addrs, err := r.resolver(c).LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		return c.nodes[0].dialContext(ctx, network, net.JoinHostPort(addrs[0], port))
	}
}

// manifest returns the page's object of a kind, with the cluster's name in place of xicheng's.
func (r *recipe) manifest(c *cluster, kind string) string {
	r.Helper()
	for _, m := range r.manifests {
		if strings.Contains(m, "\nkind: "+kind+"\n") {
			if kind != "StatefulSet" { // which names every cluster, and is the same in all
				m = strings.ReplaceAll(m, "xicheng", c.Name)
			}
			return m
		}
	}
	r.Fatalf("the page has no %s", kind)
	return ""
}

func (r *recipe) apply(c *cluster, manifests ...string) {
	r.Helper()
	for _, m := range manifests {
		c.Plane.Apply(r, []byte(m))
	}
}

// keep applies manifests in a cluster until the end of the test. A Namespace stays: nothing would delete it, and other recipes use it.
func (r *recipe) keep(c *cluster, manifests ...string) {
	r.Helper()
	r.apply(c, manifests...)
	r.Cleanup(func() { // the test's context has ended
		for _, m := range manifests {
			if strings.Contains(m, "kind: Namespace") {
				continue
			}
			if err := c.Plane.DeleteContext(context.Background(), []byte(m)); err != nil {
				r.Error(err)
			}
		}
		if err := r.forget(context.Background(), c); err != nil {
			r.Error(err)
		}
	})
}

// install applies the page's manifests in a cluster, and issues the certificate that one of them asks for.
func (r *recipe) install(c *cluster) {
	r.Helper()
	objects := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: " + recipeNamespace + "}}", r.issue(r.manifest(c, "Certificate"))}
	for _, kind := range []string{"ConfigMap", "Service", "ServiceExport", "StatefulSet"} {
		objects = append(objects, r.manifest(c, kind))
	}
	r.keep(c, objects...)
}

// issue returns the Secret of a Certificate, as cert-manager would write it.
func (r *recipe) issue(manifest string) string {
	r.Helper()
	var certificate struct {
		Spec struct {
			SecretName string
			DNSNames   []string
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &certificate); err != nil {
		r.Fatal(err)
	}
	ca, cert, key, err := r.authority.CertificateFor(certificate.Spec.DNSNames...)
	if err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {namespace: %s, name: %s}, stringData: {ca.crt: %q, tls.crt: %q, tls.key: %q}}",
		recipeNamespace, certificate.Spec.SecretName, ca, cert, key)
}

// forget removes the cluster's Pod, as a kubelet does once its containers have ended.
func (*recipe) forget(ctx context.Context, c *cluster) error {
	return c.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(recipeNamespace), client.GracePeriodSeconds(0))
}

// run starts the Pod that the StatefulSet controller has made in a cluster. It has an address and isn't ready.
func (r *recipe) run(c *cluster) {
	r.Helper()
	pod := r.unbound(c)
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: c.nodes[0].name}}
	if err := c.Client.SubResource("binding").Create(r.Context(), pod, binding); err != nil {
		r.Fatal(err)
	}
	p := &recipePod{number: firstRecipePod + r.given}
	r.given++
	var err error
	if p.ns, err = newNamespace(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { r.end(c, p) })
	r.running[c] = p
	if err := r.w.network.plug(p.ns, c.number, p.number); err != nil {
		r.Fatal(err)
	}
	r.status(c, node4(c.number, p.number), corev1.ConditionFalse)
	p.process = r.start(c, p, pod)
}

// unbound waits for the Pod.
func (r *recipe) unbound(c *cluster) *corev1.Pod {
	r.Helper()
	var all corev1.PodList
	kube.Eventually(r, func() error {
		if err := c.Client.List(r.Context(), &all, client.InNamespace(recipeNamespace)); err != nil {
			return err
		}
		if len(all.Items) != 1 || all.Items[0].Spec.NodeName != "" {
			return fmt.Errorf("%s has %d Pods, want a new one", c.Name, len(all.Items))
		}
		return nil
	})
	return &all.Items[0]
}

// status writes the Pod's status.
func (r *recipe) status(c *cluster, address string, ready corev1.ConditionStatus) {
	r.Helper()
	kube.Eventually(r, func() error {
		var all corev1.PodList
		if err := c.Client.List(r.Context(), &all, client.InNamespace(recipeNamespace)); err != nil {
			return err
		}
		if len(all.Items) != 1 {
			return fmt.Errorf("%s has %d Pods", c.Name, len(all.Items))
		}
		pod := &all.Items[0]
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return c.Client.Status().Update(r.Context(), pod)
	})
}

// start starts the Pod's container: its command, with the values of its variables, its volumes as folders, and the resolver of its cluster.
func (r *recipe) start(c *cluster, p *recipePod, pod *corev1.Pod) *process.Process {
	r.Helper()
	container := pod.Spec.Containers[0]
	words := append(slices.Clone(container.Command[1:]), container.Args...)
	for i := range words {
		for _, v := range container.Env {
			words[i] = strings.ReplaceAll(words[i], "$("+v.Name+")", r.value(c, v))
		}
		for _, m := range container.VolumeMounts {
			words[i] = strings.ReplaceAll(words[i], "="+m.MountPath+"/", "="+r.volume(c, pod, m.Name)+"/")
		}
	}
	conf := filepath.Join(r.w.dir, c.Name+"-resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver "+node4(c.number, 1)+"\n"), 0o644); err != nil { //nolint:gosec // programs that aren't root's read it
		r.Fatal(err)
	}
	args := slices.Concat([]string{
		"--net=" + p.ns.path(), "--", "unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, conf,
	}, r.program, words)
	cmd := exec.CommandContext(context.Background(), c.nsenter, args...)
	cmd.Env = os.Environ()
	for _, v := range container.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+r.value(c, v))
	}
	running, _ := process.StartFor(r, cmd, container.Name+" in "+c.Name)
	return running
}

// value returns the value of a container's variable.
func (r *recipe) value(c *cluster, v corev1.EnvVar) string {
	r.Helper()
	if v.ValueFrom == nil {
		return v.Value
	}
	ref := v.ValueFrom.ConfigMapKeyRef
	var cm corev1.ConfigMap
	if err := c.Client.Get(r.Context(), client.ObjectKey{Namespace: recipeNamespace, Name: ref.Name}, &cm); err != nil {
		r.Fatal(err)
	}
	return cm.Data[ref.Key]
}

// volume returns the folder of a Pod's volume: one that stays for a PersistentVolumeClaim, or one with the contents of a Secret or ConfigMap.
func (r *recipe) volume(c *cluster, pod *corev1.Pod, name string) string {
	r.Helper()
	dir := r.folder(c, name)
	for _, v := range pod.Spec.Volumes {
		if v.Name != name {
			continue
		}
		for key, content := range r.contents(c, v) {
			if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
				r.Fatal(err)
			}
		}
	}
	if r.user != "" {
		if out, err := exec.CommandContext(r.Context(), "chown", "-R", r.user, r.data).CombinedOutput(); err != nil {
			r.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// contents returns the files of a volume that is a Secret or a ConfigMap.
func (r *recipe) contents(c *cluster, v corev1.Volume) map[string][]byte {
	r.Helper()
	files := map[string][]byte{}
	if v.Secret != nil {
		var secret corev1.Secret
		if err := c.Client.Get(r.Context(), client.ObjectKey{Namespace: recipeNamespace, Name: v.Secret.SecretName}, &secret); err != nil {
			r.Fatal(err)
		}
		files = secret.Data
	}
	if v.ConfigMap != nil {
		var config corev1.ConfigMap
		if err := c.Client.Get(r.Context(), client.ObjectKey{Namespace: recipeNamespace, Name: v.ConfigMap.Name}, &config); err != nil {
			r.Fatal(err)
		}
		for key, content := range config.Data {
			files[key] = []byte(content)
		}
	}
	return files
}

func (r *recipe) folder(c *cluster, volume string) string {
	r.Helper()
	dir := filepath.Join(r.data, c.Name, volume)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.Fatal(err)
	}
	return dir
}

// emptyVolume makes a volume a new one.
func (r *recipe) emptyVolume(c *cluster, name string) {
	r.Helper()
	if err := os.RemoveAll(r.folder(c, name)); err != nil {
		r.Fatal(err)
	}
}

// ready waits until the Pod's readiness probe succeeds, and writes that into its status.
func (r *recipe) ready(c *cluster) {
	r.Helper()
	p := r.running[c]
	address := node4(c.number, p.number)
	var set appsv1.StatefulSet
	if err := yaml.Unmarshal([]byte(r.manifest(c, "StatefulSet")), &set); err != nil {
		r.Fatal(err)
	}
	probe := set.Spec.Template.Spec.Containers[0].ReadinessProbe
	kube.Eventually(r, func() error {
		if !p.process.Running() {
			return poll.Permanent(errors.New("the Pod's process in " + c.Name + " has ended"))
		}
		if get := probe.HTTPGet; get != nil {
			return c.nodes[0].get(r.Context(), "http://"+net.JoinHostPort(address, get.Port.String())+get.Path)
		}
		return p.ns.run(strings.Join(probe.Exec.Command, " "))
	})
	r.status(c, address, corev1.ConditionTrue)
}

// delete deletes the cluster's Pod. The StatefulSet controller makes a new one, for run.
func (r *recipe) delete(c *cluster) {
	r.Helper()
	r.end(c, r.running[c])
	if err := r.forget(r.Context(), c); err != nil {
		r.Fatal(err)
	}
}

// end ends a Pod's process, and unplugs its namespace.
func (r *recipe) end(c *cluster, p *recipePod) {
	if p.ns == nil {
		return
	}
	p.process.Kill()
	_ = r.w.network.router.run("ip link del " + port(c.number, p.number)) // plug may have failed
	p.ns.close()
	p.ns = nil
}

// find undoes die.
func (r *recipe) find(c *cluster) {
	r.Helper()
	c.reconnect()
	c.startAgent(r.T)
}
