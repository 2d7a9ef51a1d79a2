package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/join"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// cloned returns a second cluster with this one's past: an API server on a copy of its etcd, and an agent with its
// credentials that isn't started yet.
func (m *member) cloned() *member {
	m.Helper()
	c := m.on(testfleet.NewMember(m.TempDir(), binaries(), m.base.Location))
	m.Plane.StopAPIServer()
	m.Plane.StopEtcd()
	err := os.CopyFS(filepath.Join(c.Dir, "etcd"), os.DirFS(filepath.Join(m.Dir, "etcd")))
	if err = errors.Join(err, m.Plane.StartEtcd(context.Background())); err != nil {
		m.Fatal(err)
	}
	m.startAPIServer()
	m.startCopy(c)
	m.Cleanup(c.Stop)
	m.Cleanup(c.killAgent)
	return c
}

// copied returns a second cluster with this one's manifests: its name, its credentials, and an agent that isn't started yet.
// The caller must call its killAgent and Stop.
func (m *member) copied() *member {
	m.Helper()
	c := m.on(testfleet.NewMember(m.TempDir(), binaries(), m.base.Location))
	m.startCopy(c)
	c.apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + api.SystemNamespace + "}}")
	var secret corev1.Secret
	err := m.get(api.SystemNamespace, api.HubSecret, &secret)
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}
	err = errors.Join(err, join.InstallMemberCRDs(context.Background(), c.Plane.Config()), c.Client.Create(context.Background(), &secret))
	if err != nil {
		m.Fatal(err)
	}
	c.apply(string(rights("member")))
	return c
}

// startCopy starts the API server of a second cluster that has this one's credentials on the hub.
func (m *member) startCopy(c *member) {
	m.Helper()
	content, err := os.ReadFile(m.base.HubKubeconfig)
	if err = errors.Join(err, os.WriteFile(c.base.HubKubeconfig, content, 0o600), c.launch(context.Background())); err != nil {
		m.Fatal(err)
	}
}

// wrote returns how often an agent has written to its records on the hub.
func (m *member) wrote() float64 {
	m.Helper()
	n, err := m.Metrics.Sum("clusterset_exporter_hub_writes_total")
	if err != nil {
		m.Fatal(err)
	}
	return n
}

// nameTaken returns nil if the agent's metric says that its name is taken.
func (m *member) nameTaken(want float64) error {
	taken, err := m.Metrics.Sum("clusterset_exporter_name_taken")
	if err == nil && taken != want {
		err = fmt.Errorf("clusterset_exporter_name_taken is %v, want %v", taken, want)
	}
	return err
}

// diagnosed returns nil if `clusterset doctor` in the member reports it.
func (m *member) diagnosed(what string) error {
	out, err := exec.Command(binaries().Clusterset, "doctor", "--kubeconfig", m.Plane.Kubeconfig()).CombinedOutput()
	if !strings.Contains(string(out), what) {
		return fmt.Errorf("doctor in %s doesn't say %q: %w\n%s", filepath.Base(m.Dir), what, err, out)
	}
	return nil
}

// A cluster is restored from another's backup while that one runs: the same identity, name and credentials twice. The older
// one continues, also after a restart of its agent; the clone exports nothing. Both report it, and neither writes on behalf
// of the other.
func TestClonedCluster(t *testing.T) {
	f := outages(t)
	ns := f.namespace("cloned")
	beijing, tianjin := f.member("beijing"), f.member("tianjin")
	only := func(address string) string { return slice(ns, "only", "1", "IPv4", port8080, endpoint(address)) }
	beijing.apply(exported(ns, "only", "clusterIP: None, "+httpPort), only("10.200.17.1"), exported(ns, "web", httpPort))
	kube.Eventually(t, soon, func() error { return tianjin.importedFrom(ns, "only", "beijing") })
	clone := beijing.cloned()
	clone.apply(only("10.200.17.66"), exported(ns, "more", httpPort))

	// Until they have detected each other, each writes its own records and removes the other's.
	beat := func(want *member) error {
		return errors.Join(
			want.nameTaken(0), f.hub.holds("beijing", ns, "only", "10.200.17.1"),
			f.recorded("beijing", ns, "web", true), f.recorded("beijing", ns, "more", false),
		)
	}
	began, before := time.Now(), beijing.wrote()
	clone.startAgent()
	kube.Eventually(t, soon, func() error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.hub.get("", "beijing", &mc); err != nil {
			return err
		}
		if c := condition(mc.Status.Conditions, clustersetv1alpha1.ConditionCloned); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the hub says of the cluster that it is cloned: %+v", c)
		}
		return errors.Join(clone.nameTaken(1), beat(beijing))
	})
	if clone.wrote() == 0 {
		t.Error("the clone has written nothing, so that there was nothing to tell apart")
	}
	took(t, fmt.Sprintf("telling two clones apart, with %v writes of the one and %v of the other,", beijing.wrote()-before, clone.wrote()), began)
	for what, m := range map[string]*member{"the first": beijing, "the clone": clone} {
		kube.Eventually(t, soon, func() error {
			if err := m.hasEvent("MemberCluster", "", "beijing", "ClusterCloned", "name of its own"); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}

	// The clone's ServiceExports report it, and doctor reports it on both sides.
	kube.Eventually(t, soon, func() error {
		return errors.Join(
			clone.exportIs(ns, "only", "Ready", "False", "ClusterCloned"), clone.exportIs(ns, "more", "Ready", "False", "ClusterCloned"),
			beijing.exportIs(ns, "only", "Ready", "True", "Exported"),
			clone.diagnosed("names: this cluster exports nothing"), beijing.diagnosed("names: two clusters work as beijing"),
		)
	})

	// From then on the only writes are the heartbeats, and now and then the clone's claim. The records stay as they are.
	k, err := kubernetes.NewForConfig(f.hub.Plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	leases, err := k.CoordinationV1().Leases(api.MemberNamespace("beijing")).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	records, wrote := f.hub.versions("beijing", ns), clone.wrote()
	beats, says, heartbeats := 0, 0, 12
	if long {
		heartbeats = 60
	}
	var renewed time.Time
	for beats < heartbeats {
		e, open := <-leases.ResultChan()
		lease, ok := e.Object.(*coordinationv1.Lease)
		if !open || !ok {
			t.Fatalf("the watch of the Lease ended: %+v", e)
		}
		if e.Type != watch.Modified {
			continue
		}
		if at := lease.Spec.RenewTime.Time; at.Equal(renewed) {
			says++
		} else {
			renewed = at
			beats++
		}
	}
	leases.Stop()
	if says > beats/2 {
		t.Errorf("in %d heartbeats the Lease was written %d more times", beats, says)
	}
	if now := f.hub.versions("beijing", ns); now != records || clone.wrote() != wrote {
		t.Errorf("after %d heartbeats, and %v writes of the clone, the records are\n%s, were\n%s", beats, clone.wrote()-wrote, now, records)
	}

	// Its agent restarts, and by that becomes the later one.
	beijing.restartAgent()
	kube.Eventually(t, soon, func() error {
		return errors.Join(clone.nameTaken(1), beat(beijing), f.hub.phaseIs("beijing", clustersetv1alpha1.MemberReady))
	})
	beijing.apply(only("10.200.17.2"))
	kube.Eventually(t, soon, func() error { return f.hub.holds("beijing", ns, "only", "10.200.17.2") })

	clone.killAgent()
	kube.Eventually(t, soon, func() error {
		var mc clustersetv1alpha1.MemberCluster
		err := f.hub.get("", "beijing", &mc)
		if c := condition(mc.Status.Conditions, clustersetv1alpha1.ConditionCloned); err != nil || c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("the hub says of the cluster that it is cloned: %+v, %w", c, err)
		}
		return beijing.hasEvent("MemberCluster", "", "beijing", "CloneGone")
	})
}
