// Package connectivity tests a cluster set as its users use it: pods in every cluster ask for the names of what every cluster exports, and
// connect to what the names lead to. It is `clusterset test`.
//
// client.go is what the pods run, and verdict.go makes a Report of what was seen: both are pure or stand alone. run.go creates, waits and cleans up.
package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/mcs"
)

// Cluster is a cluster of the set, with an account that may create the test's objects.
type Cluster struct {
	*objects.Cluster
	Name, Context string
}

// Test is one run.
type Test struct {
	Clusters               []*Cluster
	Namespace, Image, Zone string
	// Timeout is how long the whole may take, without cleaning up.
	Timeout time.Duration
	// Keep leaves everything as it is at the end.
	Keep bool
	// Progress says what it waits for.
	Progress io.Writer

	created []*Cluster
}

const (
	pollEvery = time.Second
	// cleanFor is how long cleaning up may take, also after an interrupt.
	cleanFor = time.Minute
)

// Run creates the test's objects in all clusters, asks, cleans up and reports. Nothing is left behind unless it says so.
func (t *Test) Run(ctx context.Context) (report Report, err error) {
	defer func() {
		err = errors.Join(err, t.cleanUp(context.WithoutCancel(ctx)))
	}()
	if err := t.Create(ctx); err != nil {
		return report, err
	}
	until := time.Now().Add(t.Timeout)
	all, err := t.wait(ctx, "the servers, exports and imports", time.Now().Add(t.Timeout/2), waitsFor)
	if err != nil {
		return report, err
	}
	for i, c := range t.Clusters {
		if err := t.ask(ctx, c, asksFor(all[i], all, t.Namespace, t.Zone)); err != nil {
			return report, err
		}
	}
	if all, err = t.wait(ctx, "the answers", until, unanswered); err != nil {
		return report, err
	}
	for i, c := range t.Clusters {
		if all[i].Answers, err = t.answers(ctx, c, all[i]); err != nil {
			all[i].Client.Why = err.Error()
		}
	}
	return Judge(all, t.Namespace, t.Zone), ctx.Err()
}

func unanswered(all []*Facts) (missing []string) {
	for _, f := range all {
		if !f.Gone && !f.Client.Done && f.Client.Why != notThere {
			missing = append(missing, f.Cluster)
		}
	}
	return missing
}

// Create creates everything but the clients. It makes the namespace in every cluster before anything is exported, because services are imported only into namespaces that exist.
func (t *Test) Create(ctx context.Context) error {
	var names []string
	for _, c := range t.Clusters {
		names = append(names, c.Name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// An interrupt doesn't end this request: then nobody would know whether there is a namespace to clean up.
		switch err := c.Create(context.WithoutCancel(ctx), namespaceObject(t.Namespace), client.FieldOwner(api.FieldManagerCLI)); {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("namespace %s exists in %s already: another test runs, or one was kept; delete it with kubectl --context %s delete namespace %s, or use another --namespace",
				t.Namespace, c.Name, c.Context, t.Namespace)
		case err != nil:
			return c.Words(err)
		}
		t.created = append(t.created, c)
	}
	for _, c := range t.Clusters {
		for _, o := range objectsFor(t.Namespace, c.Name, t.Image, names) {
			if err := c.create(ctx, o); err != nil {
				return fmt.Errorf("create %T %s in %s: %w", o, o.GetName(), c.Name, c.Words(err))
			}
		}
	}
	return nil
}

// create creates an object, a ServiceExport in the version that is served.
func (c *Cluster) create(ctx context.Context, o client.Object) error {
	if _, ok := o.(*mcsv1beta1.ServiceExport); ok {
		version, err := mcs.Served(c.RESTMapper(), "ServiceExport")
		if err != nil {
			return err
		}
		served := &unstructured.Unstructured{}
		served.SetGroupVersionKind(version.Kind("ServiceExport"))
		served.SetNamespace(o.GetNamespace())
		served.SetName(o.GetName())
		served.SetLabels(o.GetLabels())
		o = served
	}
	return c.Create(ctx, o, client.FieldOwner(api.FieldManagerCLI))
}

func (t *Test) ask(ctx context.Context, c *Cluster, asks []Ask) error {
	if len(asks) == 0 {
		return nil
	}
	pod, err := clientFor(t.Namespace, t.Image, asks, t.Timeout/4)
	if err != nil {
		return err
	}
	if err := c.Create(ctx, pod, client.FieldOwner(api.FieldManagerCLI)); err != nil && !apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("create the client in %s: %w", c.Name, c.Words(err))
	}
	return nil
}

func (t *Test) answers(ctx context.Context, c *Cluster, f *Facts) (answers []Answer, err error) {
	if !f.Client.Done {
		return nil, errors.New(f.Client.Why)
	}
	pods, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	content, err := pods.CoreV1().Pods(t.Namespace).GetLogs(clientPod, &corev1.PodLogOptions{LimitBytes: ptr.To[int64](4 << 20)}).DoRaw(ctx)
	if err != nil {
		return nil, c.Words(err)
	}
	if err := json.Unmarshal(content, &answers); err != nil {
		return nil, fmt.Errorf("its pod printed %.200q instead of answers; check that --image %s is clusterset's, of the same version as this program", content, t.Image)
	}
	return answers, nil
}

// wait looks at the clusters until nothing is missing or the time is over, and returns what it saw last.
func (t *Test) wait(ctx context.Context, what string, until time.Time, missing func([]*Facts) []string) (all []*Facts, err error) {
	said := ""
	for {
		if all, err = t.look(ctx); err != nil {
			return nil, err
		}
		left := missing(all)
		if len(left) == 0 || !time.Now().Before(until) {
			return all, nil
		}
		if now := strings.Join(left, ", "); now != said {
			_, _ = fmt.Fprintf(t.Progress, "Waiting for %s: %s\n", what, now)
			said = now
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted while waiting for %s", what)
		case <-time.After(pollEvery):
		}
	}
}

func (t *Test) look(ctx context.Context) ([]*Facts, error) {
	all := make([]*Facts, len(t.Clusters))
	err := inAll(t.Clusters, func(i int, c *Cluster) (err error) { all[i], err = c.look(ctx, t.Namespace); return err })
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return all, err
}

func inAll(clusters []*Cluster, do func(int, *Cluster) error) error {
	errs := make([]error, len(clusters))
	var workers sync.WaitGroup
	for i, c := range clusters {
		workers.Go(func() { errs[i] = do(i, c) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

// cleanUp deletes the namespaces that the test created, with everything in them, and waits until they are gone.
func (t *Test) cleanUp(ctx context.Context) error {
	if t.Keep {
		for _, c := range t.created {
			_, _ = fmt.Fprintf(t.Progress, "Kept: kubectl --context %s delete namespace %s deletes it.\n", c.Context, t.Namespace)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanFor)
	defer cancel()
	return inAll(t.created, func(_ int, c *Cluster) error { return c.cleanUp(ctx, t.Namespace) })
}

func (c *Cluster) cleanUp(ctx context.Context, namespace string) error {
	left := func(err error) error {
		return fmt.Errorf("namespace %s is left in %s: %w; delete it with kubectl --context %s delete namespace %s", namespace, c.Name, err, c.Context, namespace)
	}
	ns := namespaceObject(namespace)
	if err := client.IgnoreNotFound(c.Delete(ctx, ns)); err != nil {
		return left(c.Words(err))
	}
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return left(c.Words(err))
		}
		select {
		case <-ctx.Done():
			return left(fmt.Errorf("still being deleted after %s", cleanFor))
		case <-time.After(pollEvery):
		}
	}
}

const (
	// DefaultNamespace is the test's own namespace.
	DefaultNamespace = "clusterset-test"
	// labelTest marks what belongs to the test, above all its namespace: no other is touched.
	labelTest = api.Domain + "/test"
	// port is what the servers listen on.
	port = 8080
	// podsEnd is when the kubelet ends the test's pods, should nobody delete them.
	podsEnd = 3600

	server, clientPod, account = "server", "client", "clusterset-test"
)

// serviceOf and headlessOf are the Services that a cluster exports. Their names begin with a letter, which not every cluster's does.
func serviceOf(cluster string) string  { return "in-" + cluster }
func headlessOf(cluster string) string { return "headless-in-" + cluster }

// namespaceObject returns the test's namespace. Services in it may be extended (D60), and its pods have few rights.
func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		labelTest: "true", api.KeyExtend: api.ExtendAllowed, "pod-security.kubernetes.io/enforce": "restricted",
	}}}
}

// objectsFor returns what is created in a cluster's namespace before anything is asked, in this order: a server, the Services it answers for and
// their exports, and for each other cluster a Service of the name that it exports, without a pod, which asks to be extended.
func objectsFor(namespace, cluster, image string, all []string) []client.Object {
	list := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: object(namespace, account), AutomountServiceAccountToken: ptr.To(false)},
		serverPod(namespace, cluster, image),
	}
	for _, c := range all {
		svc := service(namespace, serviceOf(c))
		if c != cluster {
			svc.Spec.Selector["app"] = "none"
			svc.Annotations = map[string]string{api.KeyExtend: api.ExtendTrue}
			list = append(list, svc)
			continue
		}
		headless := service(namespace, headlessOf(c))
		headless.Spec.ClusterIP = corev1.ClusterIPNone
		list = append(list, svc, headless, export(namespace, svc.Name), export(namespace, headless.Name))
	}
	return list
}

func object(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{labelTest: "true"}}
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: object(namespace, name), Spec: corev1.ServiceSpec{
		Selector:       map[string]string{labelTest: "true", "app": server},
		IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyPreferDualStack),
		Ports:          []corev1.ServicePort{{Name: "test", Port: port, TargetPort: intstr.FromString("test")}},
	}}
}

func export(namespace, name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: object(namespace, name)}
}

func serverPod(namespace, cluster, image string) *corev1.Pod {
	p := pod(namespace, server, image, "server", "--name", cluster, "--port", strconv.Itoa(port))
	c := &p.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "test", ContainerPort: port}}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("test")}},
		PeriodSeconds: 2,
	}
	return p
}

// clientFor returns the pod that asks the questions: a kilobyte for each other cluster.
func clientFor(namespace, image string, asks []Ask, patience time.Duration) (*corev1.Pod, error) {
	args := []string{"client", "--patience", patience.String()}
	for _, a := range asks {
		content, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("encode question: %w", err)
		}
		args = append(args, "--ask", string(content))
	}
	return pod(namespace, clientPod, image, args...), nil
}

// pod returns a pod that the Pod Security level "restricted" admits. Who runs it is for the image, or the cluster, to say.
func pod(namespace, name, image string, args ...string) *corev1.Pod {
	meta := object(namespace, name)
	meta.Labels["app"] = name
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		ServiceAccountName: account, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: ptr.To[int64](podsEnd), TerminationGracePeriodSeconds: ptr.To[int64](1),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: name, Image: image, Args: append([]string{"test"}, args...), ImagePullPolicy: corev1.PullIfNotPresent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
}
