package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleettest"
)

// crdsOf returns this project's CRDs in a cluster.
func (c *run) crdsOf(of *fleettest.Cluster) []unstructured.Unstructured {
	c.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	c.must(of.List(list))
	var ours []unstructured.Unstructured
	for _, crd := range list.Items {
		if strings.HasSuffix(crd.GetName(), ".clusterset.dev") || strings.HasSuffix(crd.GetName(), ".dns.fabedge.io") {
			ours = append(ours, crd)
		}
	}
	if len(ours) == 0 {
		c.Fatalf("%s has no CRDs of ours", of.Dir)
	}
	return ours
}

// upgradeCRDs adds an optional field to each CRD, as the next version may. When a kind changes, the API server ends all its
// watches. Then upgradeCRDs removes the fields, as a downgrade does.
func (c *run) upgradeCRDs(of *fleettest.Cluster) {
	c.Helper()
	for _, crd := range c.crdsOf(of) {
		before := crd.DeepCopy()
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		c.must(err)
		for _, v := range versions {
			at := append(newFields(v.(map[string]any)), "ofTheNextVersion")
			c.must(unstructured.SetNestedMap(v.(map[string]any), map[string]any{"type": "string"}, at...))
		}
		c.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		c.must(of.Client.Patch(context.Background(), &crd, client.MergeFrom(before)))
		if crd.GetGeneration() > before.GetGeneration() {
			c.touched("the watches of %s ended", crd.GetName())
		}
	}
	c.churn(8)
	c.watch(c.between(2*time.Second, 6*time.Second))
	c.must(c.installCRDs(of))
}

// newFields returns where a kind's schema gets new fields: in the spec or, for a Reachability, which has none, beside the others.
func newFields(version map[string]any) []string {
	all := []string{"schema", "openAPIV3Schema", "properties"}
	spec := append(slices.Clone(all), "spec", "properties")
	if _, has, _ := unstructured.NestedMap(version, spec...); has {
		return spec
	}
	return all
}

func (c *run) installCRDs(of *fleettest.Cluster) error {
	if of.Dir == c.Hub.Dir {
		return join.InstallHubCRDs(context.Background(), join.At(of.Plane.Config()))
	}
	return join.InstallMemberCRDs(context.Background(), join.At(of.Plane.Config()))
}

// deleteHubCRD deletes one of this project's CRDs on the hub, and every object of its kind with it. Then it installs the
// CRD again.
func (c *run) deleteHubCRD(resource string) {
	c.Helper()
	var crd *unstructured.Unstructured
	for _, found := range c.crdsOf(&c.Hub.Cluster) {
		if strings.HasPrefix(found.GetName(), resource+".") {
			crd = &found
		}
	}
	if crd == nil {
		c.Fatalf("the hub has no CRD of %s", resource)
	}
	c.must(c.Hub.Client.Delete(context.Background(), crd))
	c.until(func() error {
		err := c.Hub.Get("", crd.GetName(), crd.DeepCopy())
		if err == nil {
			return fmt.Errorf("CRD %s is still there", crd.GetName())
		}
		if errors.As(err, new(apierrors.APIStatus)) && apierrors.IsNotFound(errors.Unwrap(err)) {
			return nil
		}
		return err
	})
	c.touched("the API server serves no %s", resource)
	c.churn(5)
	c.watch(c.between(4*time.Second, 10*time.Second))
	c.must(c.installCRDs(&c.Hub.Cluster))
}
