package join

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/dryrun"
	"github.com/clusterset/clusterset/internal/schema"
)

// InstallHubCRDs installs or updates the CRDs that a hub needs: our own.
func InstallHubCRDs(ctx context.Context, hub Server) error {
	return install(ctx, hub, func(crd *unstructured.Unstructured) bool { return groupOf(crd) == clustersetv1alpha1.GroupName })
}

// InstallMemberCRDs installs or updates the CRDs that a member needs: MemberCluster, Reachability, GlobalService and those of
// the Multi-Cluster Services API. The latter are left alone if they are installed: another implementation, or the cluster's
// administrator, may have chosen their version.
func InstallMemberCRDs(ctx context.Context, member Server) error {
	return install(ctx, member, func(crd *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		return groupOf(crd) != clustersetv1alpha1.GroupName || kind == "MemberCluster" || kind == "Reachability"
	})
}

// install applies the wanted CRDs and waits until the API server serves them.
func install(ctx context.Context, server Server, wanted func(*unstructured.Unstructured) bool) error {
	c, err := server.client()
	if err != nil {
		return fmt.Errorf("install CRDs: %w", err)
	}
	var names []string
	for _, content := range append(crds.All(), mcscrd.ServiceExportCRD, mcscrd.ServiceImportCRD) {
		crd := &unstructured.Unstructured{}
		content, err := yaml.YAMLToJSON(content)
		if err == nil {
			err = crd.UnmarshalJSON(content)
		}
		if err != nil {
			return fmt.Errorf("read embedded CRD: %w", err)
		}
		if !wanted(crd) {
			continue
		}
		names = append(names, crd.GetName())
		if strings.HasPrefix(groupOf(crd), "multicluster.") {
			err = client.IgnoreAlreadyExists(c.Create(ctx, crd, client.FieldOwner(api.FieldManagerCLI)))
		} else {
			err = c.Patch(ctx, crd, client.RawPatch(types.ApplyPatchType, content), client.FieldOwner(api.FieldManagerCLI), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.GetName(), err)
		}
	}
	if dryrun.InstallsKinds(c) {
		return nil
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		for _, name := range names {
			if served, err := established(ctx, c, name); !served || err != nil {
				return false, err
			}
		}
		for _, group := range []string{clustersetv1alpha1.GroupName, fabedgev1alpha1.GroupName} {
			// For a moment the API server uses the definitions that it had, and drops new fields.
			lacking, err := schema.Lacking(ctx, server.Config, group)
			if err != nil || slices.ContainsFunc(slices.Collect(maps.Values(lacking)), func(fields []string) bool { return len(fields) > 0 }) {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the new CRDs to be used: %w", err)
	}
	return nil
}

func groupOf(crd *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return group
}

// established reports whether a CRD is served. Until then the API server answers 404 for its kind.
func established(ctx context.Context, c client.Client, name string) (bool, error) {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return false, err
	}
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &read)
	return meta.IsStatusConditionTrue(read.Status.Conditions, "Established"), err
}
