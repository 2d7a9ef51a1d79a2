package peers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/test/kube"
)

// A running cluster set is moved to communities and back, as docs/operations.md describes. A right that exists before and after a step
// never disappears in between.
func TestMovingASetLosesNoRight(t *testing.T) {
	w := newWorld(t)
	to := map[string][]string{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": {"x"}}
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		w.join(name)
	}
	const everybody, moved = "a: a b c d, b: a b c d, c: a b c d, d: a b c d", "a: a b d, b: a b c d, c: b c, d: a b d"
	w.awaitReads(everybody)

	ctx, stop := context.WithCancel(t.Context())
	probes, ctx := errgroup.WithContext(ctx)
	probed := 0
	probes.Go(func() error {
		set := communities.Set(to)
		for ctx.Err() == nil {
			for _, by := range names {
				for _, of := range names {
					if !set.Sees(by, of) {
						continue
					}
					err := w.agents[by].List(ctx, &clustersetv1alpha1.ExportedServiceList{}, client.InNamespace(api.MemberNamespace(of)))
					if err != nil && ctx.Err() == nil {
						return fmt.Errorf("after %d probes %s can't read %s: %w", probed, by, of, err)
					}
					probed++
				}
			}
		}
		return nil
	})
	if _, err := join.Join(ctx, join.At(w.plane.Config()), join.Options{Cluster: "c", Rejoin: true}); err != nil { // join writes the shared role
		t.Error(err)
	}
	for _, step := range []struct {
		communities func(name string) []string
		reads, said string
	}{
		{func(name string) []string { return append([]string{communities.Default}, to[name]...) }, everybody, "True Enforced"},
		{func(name string) []string { return to[name] }, moved, "True Enforced"},
		{func(name string) []string { return append([]string{communities.Default}, to[name]...) }, everybody, "True Enforced"},
		{func(string) []string { return nil }, everybody, ""},
	} {
		for _, name := range names {
			w.put(name, step.communities(name)...)
		}
		for _, name := range names {
			w.awaitSaid(name, step.said)
		}
		w.awaitReads(step.reads)
	}
	kube.Eventually(t, func() error { // no RoleBinding of communities is left
		var all rbacv1.RoleBindingList
		if err := w.admin.List(ctx, &all); err != nil {
			return err
		}
		if i := slices.IndexFunc(all.Items, func(b rbacv1.RoleBinding) bool { return b.Name == api.PeersBinding }); i >= 0 {
			return fmt.Errorf("RoleBinding %s/%s is still there", all.Items[i].Namespace, all.Items[i].Name)
		}
		return nil
	})
	w.awaitReads(everybody)
	stop()
	if err := probes.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d probes", probed)
}

// An API server doesn't end a watch when the right to it is removed. It ends a watch that has no timeout of its own after one to two times
// --min-request-timeout, and other watches at their timeout.
func TestAnOpenWatchOutlivesItsRight(t *testing.T) {
	w := newWorld(t, kube.WithAPIServerArgs("--min-request-timeout=5"))
	w.join("a", "x")
	w.join("b", "x")
	w.awaitReads("a: a b, b: a b")
	w.awaitSaid("a", "True Enforced")
	open := func(timeout *int64) (watch.Interface, error) {
		return w.agents["a"].Watch(t.Context(), &clustersetv1alpha1.ExportedServiceList{},
			&client.ListOptions{Namespace: api.MemberNamespace("b"), Raw: &metav1.ListOptions{TimeoutSeconds: timeout}})
	}
	short, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	long, err := open(new(int64(3600)))
	if err != nil {
		t.Fatal(err)
	}
	defer long.Stop()
	w.put("a", "y")
	w.awaitReads("a: a, b: b")
	for range short.ResultChan() { // until the API server ends it
	}
	if _, err := open(nil); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a new watch: %v", err)
	}
	w.export("b", "secret")
	deadline := time.After(60 * time.Second)
	for {
		select {
		case e, ok := <-long.ResultChan():
			if !ok {
				t.Fatal("the watch ended before its own timeout: docs/security.md says that it doesn't")
			}
			if s, ok := e.Object.(*clustersetv1alpha1.ExportedService); ok && s.Spec.ServiceName == "secret" {
				return
			}
		case <-deadline:
			t.Fatal("the open watch delivers no records: docs/security.md says that it does")
		}
	}
}

// Objects that have our names but aren't ours are left alone, and the condition names them.
func TestForeignRolesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.plane.Apply(t, []byte(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: clusterset-member-peer}, rules: []}`))
	w.join("a", "x")
	w.awaitSaid("a", "False NotOurs")
	role := &rbacv1.ClusterRole{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: api.MemberPeerRole}, role); err != nil || len(role.Rules) > 0 {
		t.Errorf("somebody else's role: %+v, %v", role, err)
	}
	w.awaitReads("a: a")
	if err := w.admin.Delete(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	w.awaitSaid("a", "True Enforced")
}
