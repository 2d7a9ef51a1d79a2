package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// controllers are the ones whose effects a test can see without nodes. The garbage collector discovers new kinds every 30 seconds: if an owner's
// CRD was created after the controller manager started, its dependents are collected only after that.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"endpointslice-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"statefulset-controller",
}

// StartControllerManager starts kube-controller-manager and waits for its first results. It does nothing while the controller manager runs. A
// launch with [WithControllerManager] calls it once.
func (c *ControlPlane) StartControllerManager(ctx context.Context) error {
	if c.bin.ControllerManager == "" {
		bin, err := Build(ctx, WithControllerManager(), WithProgress(c.opts.progress), WithRelease(c.opts.release))
		if err != nil {
			return err
		}
		c.bin.ControllerManager = bin.ControllerManager
	}
	return c.start(ctx, &c.controllerManager, c.bin.ControllerManager, []string{
		"--kubeconfig=" + c.Kubeconfig(),
		"--controllers=" + strings.Join(controllers, ","),
		"--leader-elect=false",
		"--service-account-private-key-file=" + filepath.Join(c.dir, "pki", "service-account.key"),
		"--root-ca-file=" + filepath.Join(c.dir, "pki", "ca.crt"),
		"--secure-port=0", // no client uses it
		// Emptying a namespace takes a request per kind; don't throttle them.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}, c.probeControllerManager)
}

// StopControllerManager ends kube-controller-manager.
func (c *ControlPlane) StopControllerManager() {
	c.controllerManager.Stop(5 * time.Second)
}

// probeControllerManager succeeds once the default namespace has its service account and CA bundle, which the admission of Pods waits for.
func (c *ControlPlane) probeControllerManager(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("get ServiceAccount default/default: %w", err)
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
		return fmt.Errorf("get ConfigMap default/kube-root-ca.crt: %w", err)
	}
	return nil
}
