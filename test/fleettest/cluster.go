package fleettest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
)

// Cluster is an API server and the test's own unrestricted access to it.
type Cluster struct {
	testing.TB // nil while the fleet starts
	*fleet.Cluster
}

// Name returns the test's name. Without this method, the name would be ambiguous, because the cluster has one too.
func (c *Cluster) Name() string { return c.TB.Name() }

// Apply applies manifests, each of one or more documents. Like the methods below, it also works in a cleanup, when the
// test's context has ended.
func (c *Cluster) Apply(manifests ...string) {
	c.Helper()
	if err := c.Plane.ApplyContext(context.Background(), Documents(manifests)); err != nil {
		c.Fatal(err)
	}
}

// Remove deletes the objects that manifests name.
func (c *Cluster) Remove(manifests ...string) {
	c.Helper()
	if err := c.Plane.DeleteContext(context.Background(), Documents(manifests)); err != nil {
		c.Fatal(err)
	}
}

// StartAPIServer starts the API server again after plane.StopAPIServer or plane.KillAPIServer, on the same port.
func (c *Cluster) StartAPIServer() {
	c.Helper()
	if err := c.Plane.StartAPIServer(context.Background()); err != nil {
		c.Fatal(err)
	}
}

// Get reads an object with the admin's rights.
func (c *Cluster) Get(namespace, name string, into client.Object) error {
	err := c.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, into)
	if err != nil {
		return fmt.Errorf("get %T %s/%s: %w", into, namespace, name, err)
	}
	return nil
}

// List reads objects with the admin's rights. It returns an error instead of failing the test, for use in kube.Eventually.
func (c *Cluster) List(into client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(context.Background(), into, opts...); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	return nil
}

// PhaseIs returns nil if the MemberCluster on the hub, or its mirror in a member, has that phase.
func (c *Cluster) PhaseIs(name string, want clustersetv1alpha1.MemberClusterPhase) error {
	var mc clustersetv1alpha1.MemberCluster
	if err := c.Get("", name, &mc); err != nil {
		return err
	}
	if mc.Status.Phase != want {
		return fmt.Errorf("%s is %q at %s, want %q", name, mc.Status.Phase, c.Cluster.Name, want)
	}
	return nil
}

// Condition returns the condition of that type, or nil.
func Condition(conditions []metav1.Condition, name string) *metav1.Condition {
	return meta.FindStatusCondition(conditions, name)
}

// Documents joins manifests into one.
func Documents(manifests []string) []byte { return []byte(strings.Join(manifests, "\n---\n")) }
