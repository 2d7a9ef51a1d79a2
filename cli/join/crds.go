package join

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	for _, name := range names {
		if err := await(ctx, "CRD "+name+" to be served", func(ctx context.Context) (bool, error) { return established(ctx, c, name) }); err != nil {
			return err
		}
	}
	for _, group := range []string{clustersetv1alpha1.GroupName, fabedgev1alpha1.GroupName} {
		// For a moment the API server uses the definitions that it had, and drops new fields.
		err := await(ctx, "the new CRDs of "+group+" to be used", func(ctx context.Context) (bool, error) {
			lacking, err := schema.Lacking(ctx, server.Config, group)
			for _, fields := range lacking {
				if len(fields) > 0 {
					return false, err
				}
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func groupOf(crd *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return group
}

func await(ctx context.Context, what string, is func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, is); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

// established reports whether a CRD is served. Until then the API server answers 404 for its kind.
func established(ctx context.Context, c client.Client, name string) (bool, error) {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return false, err
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == "Established" && condition["status"] == "True"
	}), nil
}
