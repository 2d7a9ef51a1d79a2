package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// joinsByMemberClusters runs the hub process of a release that lists its members, and an agent with the Secret that the process
// writes for it. Then it tries, with the process's account, what its roles or its admission policy must forbid.
func (c *cluster) joinsByMemberClusters(t *testing.T) {
	const namespace = "kube-system" // not clusterset-system, where the release of runsAgents is
	values := strings.ReplaceAll(read(t, filepath.Join(chartDir, "examples", "hub-members.yaml")), "https://hub.example.com:6443", c.URL())
	values = strings.NewReplacer("beijing", "gent", "shanghai", "pisa").Replace(values)
	all := objects(t, render(t, Options{"declared", namespace, values, newest}).Manifests)
	c.Apply(t, encode(t, only(all, append(rbacKinds, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MemberCluster")...))...)
	hub := deployment(t, all, "hub")
	c.start(t, hub, nil)

	admin, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	in := api.MemberNamespace("gent")
	var kubeconfig []byte
	kube.Eventually(t, func() error {
		secret, err := admin.CoreV1().Secrets(in).Get(t.Context(), api.HubSecret, metav1.GetOptions{})
		if err == nil {
			kubeconfig = secret.Data[api.HubSecretKey]
		}
		return err
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, nil, "clusterset", "member", "--hub-kubeconfig", path, "--kubeconfig", c.Kubeconfig(), "--leader-elect-namespace", namespace,
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0")
	c.expectField(t, "clusterset.dev", "v1alpha1", "memberclusters", "", "gent", "Ready", "status", "phase")
	kube.Eventually(t, func() error {
		_, err := admin.CoreV1().Secrets(in).Get(t.Context(), api.HubSecret, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is still there: %w", err)
		}
		return nil
	})
	user, groups := identity(hub)
	kube.Eventually(t, func() error { return c.noneForbidden(user) })

	hubKubeconfig, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	as, err := clientcmd.BuildConfigFromFlags("", hubKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	process, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	token := &corev1.Secret{ObjectMeta: meta(in, "x"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: api.MemberServiceAccount}
	for what, do := range map[string]func() error{
		"make a Secret elsewhere": func() error {
			_, err := process.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: meta("", "x")}, metav1.CreateOptions{})
			return err
		},
		"have a token put into a Secret": func() error {
			_, err := process.CoreV1().Secrets(in).Create(t.Context(), token, metav1.CreateOptions{})
			return err
		},
		"delete the agent's Secret of the hub's own cluster": func() error {
			return process.CoreV1().Secrets("clusterset-system").Delete(t.Context(), api.HubSecret, metav1.DeleteOptions{})
		},
		"read a Secret": func() error {
			_, err := process.CoreV1().Secrets(in).Get(t.Context(), api.HubSecret, metav1.GetOptions{})
			return err
		},
		"make an account elsewhere": func() error {
			_, err := process.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta("", api.MemberServiceAccount)}, metav1.CreateOptions{})
			return err
		},
		"make another namespace": func() error {
			_, err := process.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta("", "x")}, metav1.CreateOptions{})
			return err
		},
		"delete a namespace": func() error { return process.CoreV1().Namespaces().Delete(t.Context(), in, metav1.DeleteOptions{}) },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("the hub process's account can %s: %v", what, err)
		}
	}
}
