// Package hubtest runs the hub process's controllers in a test, against a real API server.
package hubtest

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// Admin installs this project's CRDs on a hub and returns its administrator's client.
func Admin(t *testing.T, plane *kube.ControlPlane) client.Client {
	t.Helper()
	if err := join.InstallHubCRDs(t.Context(), join.At(plane.Config())); err != nil {
		t.Fatal(err)
	}
	admin, err := connect.NewClient(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// Account grants rights (see fleet.Rights) to the hub process's account, and returns a client configuration that has only these.
func Account(t *testing.T, plane *kube.ControlPlane, rights ...string) *rest.Config {
	t.Helper()
	for _, of := range rights {
		plane.Apply(t, fleet.Rights(of))
	}
	kubeconfig, err := plane.KubeconfigFor("clusterset-hub")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Run runs the controllers that setup adds, until stop is called or the test ends.
func Run(t *testing.T, config *rest.Config, setup func(manager.Manager) error) (stop func()) {
	t.Helper()
	mgr, err := manager.New(config, manager.Options{
		Scheme: connect.NewScheme(), Cache: hub.CacheOptions(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("hub: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
