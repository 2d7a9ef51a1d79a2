package exporter_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// A hub from before policies still works. The ServiceExport reports what is lost, and that the hub should be upgraded.
func TestAHubThatDoesNotKnowPolicies(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	known, err := crds.FS.ReadFile("clusterset.dev_exportedservices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	unknown := bytes.ReplaceAll(known, []byte("              policy:\n"), []byte("              yetUnknown:\n"))
	if bytes.Equal(known, unknown) {
		t.Fatal("the schema has no policy to take away")
	}
	w.hub.Apply(t, unknown)
	preferring := bytes.Replace(manifest(webExport, "web", "v1beta1"), []byte("name: web"), []byte("name: web, annotations: {clusterset.dev/prefer: none}"), 1)
	w.member.Apply(t, manifest(webService, "web"), preferring)
	w.run()
	w.awaitRecords("web", 2)
	ready := func() (string, error) {
		export := &mcsv1beta1.ServiceExport{}
		if err := w.here.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, export); err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(export.Status.Conditions, "Ready"); c != nil && c.Status == "True" {
			return c.Message, nil
		}
		return "", errors.New("not ready")
	}
	kube.Eventually(t, 20*time.Second, func() error {
		if message, err := ready(); err != nil || !strings.Contains(message, "spec.policy: Forbidden: the hub has an older version") {
			return fmt.Errorf("the condition says %q, %w", message, err)
		}
		return nil
	})

	// Once the hub is upgraded, it stores the next change. It may take several changes, because the API server serves watches with the old
	// schema for a moment.
	w.hub.Apply(t, known)
	change := 0
	kube.Eventually(t, 30*time.Second, func() error {
		change++
		want := []string{"zone", "region"}[change/10%2]
		w.member.Apply(t, bytes.Replace(preferring, []byte("prefer: none"), []byte("prefer: "+want), 1))
		record := &clustersetv1alpha1.ExportedService{}
		err := w.onHub.Get(t.Context(), types.NamespacedName{Namespace: "clusterset-member-beijing", Name: "web.shop"}, record)
		if err != nil || record.Spec.Policy == nil || record.Spec.Policy.Prefer != want {
			return fmt.Errorf("the policy is %+v, %w", record.Spec.Policy, err)
		}
		if message, err := ready(); err != nil || strings.Contains(message, "older version") {
			return fmt.Errorf("the condition says %q, %w", message, err)
		}
		return nil
	})
}
