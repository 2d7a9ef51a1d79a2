package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/test/kube"
)

// acceptsCRDs makes the API server validate every CustomResourceDefinition as the chart renders it.
func (c *cluster) acceptsCRDs(t *testing.T) {
	try := c.newTrial(t)
	for _, e := range examples(t) {
		for _, o := range only(objects(t, render(t, e.Options).Manifests), "CustomResourceDefinition") {
			try.create(t, e.name, o)
		}
	}
}

// acceptsObjects makes the API server validate all other objects. It also creates each Deployment's pods, because creating the
// Deployment doesn't validate them.
func (c *cluster) acceptsObjects(t *testing.T) {
	try := c.newTrial(t)
	for _, e := range examples(t) {
		try.old = e.KubeVersion != newest
		t.Run(e.name, func(t *testing.T) {
			all := objects(t, render(t, e.Options).Manifests)
			for _, o := range all {
				if kind := o.GetKind(); kind != "CustomResourceDefinition" && kind != "PriorityClass" { // admitPods creates that one
					try.create(t, e.name, o)
				}
			}
			defer c.admitPods(t, all)()
			for _, component := range components {
				d := deployment(t, all, component)
				if d == nil {
					continue
				}
				pod := podOf(d)
				_, err := try.clients.CoreV1().Pods(d.Namespace).Create(t.Context(), pod, dryRun)
				try.check(t, fmt.Sprintf("%s: pod of %s", e.name, d.Name), err)
				// The namespace does enforce the restricted standard: it rejects the same pod with more rights.
				pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext = nil, nil
				_, err = try.clients.CoreV1().Pods(d.Namespace).Create(t.Context(), pod, dryRun)
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
					t.Errorf("%s: pod of %s that may run as root: %v", e.name, d.Name, err)
				}
			}
		})
	}
}

// podOf returns a Deployment's pod.
func podOf(d *appsv1.Deployment) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	pod.Name = d.Name
	return pod
}

// admitPods creates what pods need to be admitted. The function that it returns deletes it.
func (c *cluster) admitPods(t *testing.T, all []*unstructured.Unstructured) (undo func()) {
	t.Helper()
	accounts, classes := encode(t, only(all, "ServiceAccount")), only(all, "PriorityClass")
	c.Apply(t, accounts...)
	c.Apply(t, encode(t, classes)...)
	clients, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	// Admission knows a class a moment after it was created.
	for _, class := range classes {
		kube.Eventually(t, func() error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Spec: corev1.PodSpec{
				PriorityClassName: class.GetName(), Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}}
			_, err := clients.CoreV1().Pods("default").Create(t.Context(), pod, dryRun)
			if err != nil && strings.Contains(err.Error(), "no PriorityClass") {
				return err
			}
			return nil
		})
	}
	return func() { c.Delete(t, accounts...) } // the classes stay: the next example has them too
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}

// trial creates objects with dry-run. A warning is a failure, too, such as one about a deprecated field or a name that is no longer
// valid.
type trial struct {
	objects  *kube.Resources
	clients  kubernetes.Interface
	old      bool // rendered for an older Kubernetes; this API server may warn that something is deprecated
	warnings []string
}

func (c *cluster) newTrial(t *testing.T) *trial {
	t.Helper()
	try := &trial{}
	config := c.Config()
	config.WarningHandlerWithContext = try
	var err error
	if try.clients, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	try.objects = resources(t, config)
	return try
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (try *trial) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	try.warnings = append(try.warnings, text)
}

func (try *trial) create(t *testing.T, example string, o *unstructured.Unstructured) {
	t.Helper()
	what := fmt.Sprintf("%s: %s %s", example, o.GetKind(), o.GetName())
	namespace := o.GetNamespace()
	resource, err := try.objects.Of(o)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if o.GetNamespace() != namespace { // Helm would use the release's namespace, kubectl another
		t.Errorf("%s has no namespace", what)
	}
	_, err = resource.Create(t.Context(), o, dryRun)
	try.check(t, what, err)
}

func (try *trial) check(t *testing.T, what string, err error) {
	t.Helper()
	warnings := try.warnings
	try.warnings = nil
	if err != nil || len(warnings) > 0 && !try.old {
		t.Errorf("%s: %v %s", what, err, strings.Join(warnings, "; "))
	}
}
