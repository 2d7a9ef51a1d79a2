package connectivity

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/mcs"
)

const (
	// DefaultNamespace is the test's own namespace.
	DefaultNamespace = "clusterset-test"
	// labelTest marks what belongs to the test, above all its namespace: no other is touched.
	labelTest = api.Domain + "/test"
	// Port is where the test's servers listen.
	Port = 8080
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
func objectsFor(namespace, cluster, image string, all []string, version mcs.Version) []client.Object {
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
		list = append(list, svc, headless, export(version, svc), export(version, headless))
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
		Ports:          []corev1.ServicePort{{Name: "test", Port: Port, TargetPort: intstr.FromString("test")}},
	}}
}

// export returns a Service's export in the version that is served, whose type the client needn't know.
func export(version mcs.Version, of *corev1.Service) *unstructured.Unstructured {
	export := &unstructured.Unstructured{}
	export.SetGroupVersionKind(version.Kind("ServiceExport"))
	export.SetNamespace(of.Namespace)
	export.SetName(of.Name)
	export.SetLabels(of.Labels)
	return export
}

func serverPod(namespace, cluster, image string) *corev1.Pod {
	p := pod(namespace, server, image, "server", "--name", cluster)
	c := &p.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "test", ContainerPort: Port}}
	c.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("test")}},
		PeriodSeconds: 2,
	}
	return p
}

// clientFor returns the pod that asks the questions: a kilobyte for each other cluster.
func clientFor(namespace, image string, asks []Ask, patience time.Duration) *corev1.Pod {
	args := []string{"client", "--patience", patience.String()}
	for _, a := range asks {
		content, _ := json.Marshal(a) // it has only strings and a bool
		args = append(args, "--ask", string(content))
	}
	return pod(namespace, clientPod, image, args...)
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
