package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
)

// admitAnyCIDR makes the hub's CRD admit any text as a network, and gives the victim such ones. The schema refuses what people mistype, but a hub can have the CRDs of
// another version.
func (c *run) admitAnyCIDR(mistyped []string) {
	c.Helper()
	crds := c.crdsOf(&c.Hub.Cluster)
	i := slices.IndexFunc(crds, func(crd unstructured.Unstructured) bool { return crd.GetName() == "memberclusters.clusterset.dev" })
	if i < 0 {
		c.Fatal("the hub has no CRD of memberclusters")
	}
	crd := &crds[i]
	before := crd.DeepCopy()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	c.must(err)
	for _, v := range versions {
		c.must(unstructured.SetNestedMap(v.(map[string]any), map[string]any{"type": "string", "maxLength": int64(43)},
			"schema", "openAPIV3Schema", "properties", "spec", "properties", "cidrs", "items"))
	}
	c.must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	c.must(c.Hub.Client.Patch(context.Background(), crd, client.MergeFrom(before)))
	c.until(func() error { return c.setCIDRs(mistyped) })
}

// setCIDRs sets the networks in the victim's MemberCluster.
func (c *run) setCIDRs(cidrs []string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"cidrs": cidrs}})
	if err != nil {
		return err
	}
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = c.victim.Spec.Name
	return c.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, patch))
}

// complains returns nil once the hub says that it can't use a field of the victim's MemberCluster.
func (c *run) complains(about string) error {
	var mc clustersetv1alpha1.MemberCluster
	if err := c.Hub.Get("", c.victim.Spec.Name, &mc); err != nil {
		return err
	}
	if valid := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionValid); valid == nil || !strings.Contains(valid.Message, about) {
		return fmt.Errorf("MemberCluster %s: the condition %s is %v; want it to name %s", mc.Name, clustersetv1alpha1.ConditionValid, valid, about)
	}
	return nil
}

// isDrained drains and undrains the victim, and waits until each answer has changed that must, everywhere.
func (c *run) isDrained() {
	c.Helper()
	c.drain(true)
	c.drain(false)
}

// drain drains or undrains the victim, and waits until each answer has changed that must, everywhere.
func (c *run) drain(drained bool) {
	c.Helper()
	before, after := c.phases[ready], c.phases[suspected] // a drained cluster ranks as a Suspect one does
	if !drained {
		before, after = after, before
	}
	c.prober.expect(before, after)
	c.must(c.Drain(slices.Index(c.Members, c.victim), drained))
	c.prober.look(1)
	c.until(func() error { return c.prober.unseen(1, -1) })
	c.touched("%d answers changed elsewhere with the drain of %s, or its end", c.shows(ready, suspected), c.victim.Spec.Name)
}
