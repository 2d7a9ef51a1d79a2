package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// TestCredentials follows the life of an agent's credentials: they are renewed in time, revoked, and expire while no agent runs. The agent
// exports in between, and the imports stay throughout. Then no process's output and no object except Secrets contains any of the
// credentials. In the end the cluster leaves.
func TestCredentials(t *testing.T) {
	w := startCredentials(t)
	t.Run("renewed without a gap", w.renewed)
	t.Run("revoked, and replaced without a restart", w.revoked)
	t.Run("expired while no agent ran", w.expired)
	t.Run("never disclosed", w.neverDisclosed)
	t.Run("not in a bundle either", w.bundled)
	t.Run("gone with all that the agent wrote", w.left)
}

// renewed gives the agent a token that is past half of its lifetime, so that the agent renews it at once. The old token is revoked while
// exports continue.
func (w *credentials) renewed(t *testing.T) {
	bound := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: "first-token"}}
	if err := w.onHub.Create(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	// The token looks like one from a TokenRequest with boundObjectRef, but is an hour old. It becomes invalid when the Secret is deleted.
	now := time.Now()
	first := w.forge(t, now.Add(-time.Hour), now.Add(10*time.Minute), bound)
	if err := w.asks(t, first); err != nil {
		t.Fatalf("the API server doesn't take the test's token: %v", err)
	}
	w.install(t, withToken(t, w.installed(t), first))
	w.startAgent()
	w.exports(t, "web")
	kube.Eventually(t, func() error {
		o := serviceImport()
		err := w.here.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web"}, o)
		w.firstImported = o.GetUID()
		return err
	})
	kube.Eventually(t, func() error {
		if tokenOf(t, w.installed(t)) == first {
			return errors.New("the token is the first one still")
		}
		return nil
	})
	w.keep(tokenOf(t, w.installed(t)))
	if err := w.onHub.Delete(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	n := 0
	kube.Eventually(t, func() error { // the API server accepts a token for ten seconds after it has checked it
		w.exports(t, fmt.Sprintf("during-%d", n))
		n++
		if err := w.asks(t, first); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("with the old token: %w", err)
		}
		return nil
	})
	w.exports(t, "after")
	w.imported(t)
	if strings.Contains(w.logs(), "doesn't accept this member's token") {
		t.Error("the agent went on with the old token")
	}
	if got, err := w.metrics.Sum("clusterset_hub_token_renewals_total", "result", "ok"); got != 1 || err != nil {
		t.Errorf("%v renewals were counted, %v", got, err)
	}
}

// revoked acts as an administrator who revokes every token, as after a theft, and gives the agent a new one a while later.
func (w *credentials) revoked(t *testing.T) {
	old := tokenOf(t, w.installed(t))
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "beijing", "--rejoin", "--revoke")
	if code != 0 {
		t.Fatalf("join --rejoin --revoke: exit code %d, %s", code, stderr)
	}
	kube.Eventually(t, func() error {
		if err := w.asks(t, old); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("with the old token: %w", err)
		}
		return w.said("doesn't accept this member's token", "has been revoked", "clusterset join --rejoin")
	})
	// The cluster's own reports name the cause and the cure: doctor at once, because it tries the Secret's token, and then what the agent says.
	w.reports(t, "doctor", "hub: the hub at ", "doesn't accept the agent's token in Secret clusterset-system/clusterset-hub-credentials",
		"clusterset join beijing --rejoin --hub-kubeconfig "+w.hub.Kubeconfig(), " --kubeconfig "+w.member.Kubeconfig())
	w.reports(t, "status", "hub TokenRefused: it hasn't accepted the token of this cluster's agent for ", ": it was revoked, ", "clusterset join beijing --rejoin")
	w.create(t, "while-cut-off")
	w.imported(t)
	// A thief left records of a namespace that the agent doesn't watch: one with the label by which it selects, one without.
	w.forgeRecord(t, "labelled", map[string]string{api.LabelExportedNamespace: "elsewhere"})
	w.forgeRecord(t, "hidden", nil)
	w.install(t, stdout)
	kube.Eventually(t, func() error { return w.exported(t, "while-cut-off") })
	kube.Eventually(t, func() error {
		var all clustersetv1alpha1.ExportedServiceList
		if err := w.onHub.List(t.Context(), &all, client.InNamespace(api.MemberNamespace("beijing"))); err != nil {
			return err
		}
		for _, s := range all.Items {
			if s.Spec.ServiceNamespace == "elsewhere" && s.Exports() {
				return fmt.Errorf("the thief's %s is still there", s.Name)
			}
		}
		return nil
	})
	w.imported(t)
	if code := w.stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	var lease coordinationv1.Lease // which it renewed although it doesn't vie for it
	if err := w.here.Get(t.Context(), types.NamespacedName{Namespace: api.SystemNamespace, Name: api.MemberLeaderLease}, &lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(lease.Spec.RenewTime.Add(-time.Minute)))
	if err := w.here.Update(t.Context(), &lease); err != nil {
		t.Fatal(err)
	}
	w.reports(t, "status", "beijing AgentStopped: the agent of this cluster has not renewed its Lease clusterset-system/clusterset-member-leader for 1m")
}

// reports waits until a command that reads the member and the hub fails with all of the words.
func (w *credentials) reports(t *testing.T, command string, words ...string) {
	t.Helper()
	kube.Eventually(t, func() error {
		code, stdout, stderr := cli(t, command, "--kubeconfig", w.member.Kubeconfig(), "--hub-kubeconfig", w.hub.Kubeconfig())
		for _, word := range words {
			if code != 1 || !strings.Contains(stdout, word) {
				return fmt.Errorf("exit code %d, without %q: %s%s", code, word, stdout, stderr)
			}
		}
		return nil
	})
}

// forgeRecord creates a record of the member that its agent didn't write.
func (w *credentials) forgeRecord(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	forged := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: name + ".elsewhere", Labels: labels},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "elsewhere", ServiceName: name, Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	}
	if err := w.onHub.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
}

// expired starts the agent with a token that expired while it was down.
func (w *credentials) expired(t *testing.T) {
	now := time.Now()
	w.install(t, withToken(t, w.installed(t), w.forge(t, now.Add(-15*24*time.Hour), now.Add(-24*time.Hour), nil)))
	w.startAgent()
	w.create(t, "while-expired")
	kube.Eventually(t, func() error {
		return w.said("it expired at "+now.Add(-24*time.Hour).UTC().Format(time.RFC3339), "Names stay answered as they are")
	})
	w.imported(t)
	code, stdout, stderr := cli(t, "join", "--hub-kubeconfig", w.hub.Kubeconfig(), "beijing", "--rejoin")
	if code != 0 {
		t.Fatalf("join --rejoin: exit code %d, %s", code, stderr)
	}
	w.install(t, stdout)
	kube.Eventually(t, func() error { return w.exported(t, "while-expired") })
	w.imported(t)
}

// left takes the cluster out of the set: not while its agent runs, which would import everything again.
func (w *credentials) left(t *testing.T) {
	leave := []string{"leave", "beijing", "--yes", "--hub-kubeconfig", w.hub.Kubeconfig(), "--kubeconfig", w.member.Kubeconfig()}
	fails(t, exitFailure, "its agent runs", leave...)
	if code := w.stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if code, stdout, stderr := cli(t, leave...); code != 0 || !strings.Contains(stdout, "beijing has left") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if err := w.onHub.Get(t.Context(), types.NamespacedName{Name: api.MemberNamespace("beijing")}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("its namespace on the hub: %v", err)
	}
	all := everything(t, w.member)
	for name, o := range all {
		if o.GetLabels()[api.LabelManagedBy] != "" {
			t.Errorf("%s is left", name)
		}
	}
	if all["services shop/web"] == nil {
		t.Error("the user's Service is gone")
	}
}
