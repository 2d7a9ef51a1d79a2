package importer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// With --create-namespaces, a thief exports services from ever new namespaces. It gets as many namespaces as the limit allows, even one
// service at a time; others still get theirs. Rule C57 of docs/spec/control-plane.md.
func TestOneMemberCannotCreateNamespacesWithoutEnd(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.onHub(namespaceOf("thief"), memberOf("thief"))
	w.start(Options{CreateNamespaces: true, MaxNamespaces: 3})
	created := func() (names []string) {
		var all corev1.NamespaceList
		if err := w.client.List(t.Context(), &all, client.MatchingLabels(desired.Labels())); err != nil {
			t.Fatal(err)
		}
		for _, ns := range all.Items {
			names = append(names, ns.Name)
		}
		return names
	}
	capped := func(n int) func() error {
		return func() error {
			if is := metric(t, "clusterset_importer_services", "state", "capped"); int(is) != n {
				return fmt.Errorf("%v services are capped, want %d; the namespaces are %v", is, n, created())
			}
			return nil
		}
	}

	// All at once, by workers in parallel.
	var all []string
	for i := range 8 {
		all = append(all, records.Exported("thief", fmt.Sprintf("fill-%d", i), "x", "10.3.0.1", "10.13.0.6"))
	}
	w.onHub(all...)
	kube.Eventually(t, capped(5))
	if names := created(); len(names) != 3 {
		t.Errorf("the namespaces are %v, want 3", names)
	}
	kube.Eventually(t, func() error {
		var events eventsv1.EventList
		if err := w.client.List(t.Context(), &events); err != nil {
			return err
		}
		n := 0
		for _, e := range events.Items {
			if e.Reason == reasonTooManyNamespaces && e.Regarding.Name == "thief" && strings.Contains(e.Note, "3 namespaces have been created here for services of cluster thief") {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("%d Events name the thief, want 1", n)
		}
		return nil
	})

	// One at a time.
	for _, r := range all {
		w.withdraw(r)
	}
	kube.Eventually(t, capped(0))
	w.onHub(records.Exported("thief", "one-more", "x", "10.3.0.1", "10.13.0.6"))
	kube.Eventually(t, capped(1))

	// Another cluster that exports the same service has room.
	w.onHub(records.Exported("shanghai", "one-more", "x", "10.2.0.1", "10.12.0.5"))
	w.imported("one-more", "x", 2)
	if names := created(); len(names) != 4 {
		t.Errorf("the namespaces are %v, want 4", names)
	}
}
