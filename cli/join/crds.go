package join

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcscrd "sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/cli/rehearse"
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
		if err := yaml.Unmarshal(content, crd); err != nil {
			return fmt.Errorf("read embedded CRD: %w", err)
		}
		if !wanted(crd) {
			continue
		}
		names = append(names, crd.GetName())
		if strings.HasPrefix(groupOf(crd), "multicluster.") {
			err = c.Create(ctx, crd, client.FieldOwner(api.FieldManagerCLI))
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
		} else {
			err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner(api.FieldManagerCLI), client.ForceOwnership)
		}
		if err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.GetName(), err)
		}
	}
	if rehearse.InstallsKinds(c) {
		return nil
	}
	for _, name := range names {
		if err := awaitServed(ctx, c, name); err != nil {
			return err
		}
	}
	return awaitComplete(ctx, server.Config)
}

func groupOf(crd *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	return group
}

// awaitComplete waits until the API server keeps all fields of our kinds. For a moment it uses the definitions that it had.
func awaitComplete(ctx context.Context, config *rest.Config) error {
	for _, group := range []string{clustersetv1alpha1.GroupName, fabedgev1alpha1.GroupName} {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			lacking, err := schema.Lacking(ctx, config, group)
			for _, fields := range lacking {
				if len(fields) > 0 {
					return false, err
				}
			}
			return true, err
		})
		if err != nil {
			return fmt.Errorf("wait for the new CRDs of %s to be used: %w", group, err)
		}
	}
	return nil
}

// awaitServed waits until a CRD is established. Until then the API server answers 404 for its kind.
func awaitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, c := range conditions {
			if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" && condition["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s to be served: %w", name, err)
	}
	return nil
}
