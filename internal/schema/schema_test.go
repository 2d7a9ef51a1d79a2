package schema_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/test/kube"
)

// Rule C73 of docs/spec/control-plane.md.
func TestAHubThatIsTooOldIsFound(t *testing.T) {
	hub := kube.Start(t)
	if err := schema.CheckHub(t.Context(), hub.Config()); err != nil {
		t.Errorf("a hub without our kinds: %v", err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), time.Second)
	if err := schema.AwaitHub(waiting, hub.Config()); err != nil || waiting.Err() == nil {
		t.Errorf("it didn't wait for our kinds: %v", err)
	}
	cancel()

	for _, content := range crds.All() {
		if bytes.Contains(content, []byte("kind: Reachability\n")) {
			continue // a hub that the chart installs doesn't have it
		}
		for _, field := range []string{"exportTo", "communities", "zone"} {
			content = bytes.ReplaceAll(content, []byte(" "+field+":\n"), []byte(" "+field+"Formerly:\n"))
		}
		hub.Apply(t, content)
	}
	var err error
	kube.Eventually(t, func() error {
		if err = schema.CheckHub(t.Context(), hub.Config()); err == nil {
			return errors.New("not found")
		}
		return nil
	})
	if !errors.Is(err, schema.ErrTooOld) || !strings.Contains(err.Error(), "--install-crds") {
		t.Errorf("it says %q", err)
	}
	kube.Eventually(t, func() error {
		lacking, err := schema.Lacking(t.Context(), hub.Config(), "clusterset.dev")
		if err != nil {
			return err
		}
		for name, want := range map[string][]string{
			"exportedendpoints.clusterset.dev": {"v1alpha1.spec.endpoints.zone"},
			"exportedservices.clusterset.dev":  {"v1alpha1.spec.exportTo"},
			"memberclusters.clusterset.dev":    {"v1alpha1.spec.communities", "v1alpha1.spec.zone"},
		} {
			if !slices.Equal(lacking[name], want) {
				return fmt.Errorf("%s lacks %v, want %v", name, lacking[name], want)
			}
		}
		return nil
	})
	if err := schema.AwaitHub(t.Context(), hub.Config()); !errors.Is(err, schema.ErrTooOld) {
		t.Errorf("AwaitHub: %v", err)
	}

	for _, content := range crds.All() {
		hub.Apply(t, content)
	}
	kube.Eventually(t, func() error { return schema.AwaitHub(t.Context(), hub.Config()) })
	kube.Eventually(t, func() error {
		lacking, err := schema.Lacking(t.Context(), hub.Config(), "dns.fabedge.io")
		if fields, served := lacking["globalservices.dns.fabedge.io"]; err != nil || !served || len(fields) > 0 {
			return fmt.Errorf("GlobalService: %v, %w", lacking, err)
		}
		return nil
	})
	hub.Stop()
	if err := schema.CheckHub(t.Context(), hub.Config()); err != nil {
		t.Errorf("a hub that is down: %v", err)
	}
}
