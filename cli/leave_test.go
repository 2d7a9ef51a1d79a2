package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
)

// Whether an agent runs shows in a change of its Lease, whatever its clock says and however rarely it renews it.
func TestLeaveFindsARunningAgent(t *testing.T) {
	for _, c := range []struct {
		name        string
		skew, every time.Duration // of the member's clock, and between heartbeats, of which none comes if dead
		dead, force bool
		phase       clustersetv1alpha1.MemberClusterPhase
		waits       time.Duration // at most
	}{
		{"runs", 0, 10 * time.Second, false, false, "", 11 * time.Second},
		{"its clock is behind", -time.Hour, 10 * time.Second, false, false, "", 11 * time.Second},
		{"its clock is ahead", time.Hour, 10 * time.Second, false, false, "", 11 * time.Second},
		{"rarely", 0, time.Minute, false, false, "", 61 * time.Second},
		{"stopped", 0, 10 * time.Second, true, false, "", 26 * time.Second},
		{"silent, says the hub", 0, 10 * time.Second, true, false, clustersetv1alpha1.MemberExpired, 0},
		{"by force", 0, 10 * time.Second, false, true, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: api.HeartbeatLease}}
				lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(c.skew)))
				lease.Spec.LeaseDurationSeconds = ptr.To(int32(4 * c.every / time.Second))
				mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}}
				mc.Status.Phase = c.phase
				hub := &objects.Cluster{Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(lease, mc).Build(), What: "hub"}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() {
					for !c.dead {
						select {
						case <-ctx.Done():
							return
						case <-time.After(c.every):
						}
						lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(c.skew)))
						if err := hub.Update(ctx, lease); err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				}()
				began := time.Now()
				err := (&leaveCommand{cluster: "beijing", force: c.force, membership: membership{hub: hub}}).stopped(ctx)
				if (err == nil) != (c.dead || c.force) || time.Since(began) > c.waits {
					t.Errorf("%v after %s", err, time.Since(began))
				}
			})
		})
	}
}

// Somebody may have copied the Secret from the hub without labels (docs/gitops.md). leave still refuses another member, and removes the Secret
// of the right one.
func TestLeaveKnowsAMemberByItsKubeconfig(t *testing.T) {
	kubeconfig, err := connect.Kubeconfig(&rest.Config{Host: "https://hub.example.com"}, "", "beijing", "token")
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: api.HubSecret},
		Data:       map[string][]byte{api.HubSecretKey: kubeconfig},
	}
	key := client.ObjectKeyFromObject(secret)
	member := &objects.Cluster{Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(secret).Build()}
	hub := &objects.Cluster{Client: fake.NewClientBuilder().WithScheme(connect.NewScheme()).Build()}
	l := leaveCommand{membership: membership{hub: hub, member: member, secret: key}}
	if err := l.check(t.Context(), "shanghai"); err == nil || !strings.Contains(err.Error(), "is beijing, not shanghai") {
		t.Errorf("leave shanghai, in beijing: %v", err)
	}
	if err := l.check(t.Context(), "beijing"); err != nil {
		t.Errorf("leave beijing: %v", err)
	}
	if err := l.cleanUp(t.Context()); err != nil {
		t.Error(err)
	}
	if err := member.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret is left: %v", err)
	}
}

// leave says what the leaving cluster's own clients lose. testdata/dry-run.txt has the usual case.
func TestLeaveSaysWhatOwnClientsLose(t *testing.T) {
	scheme := connect.NewScheme()
	if err := mcsv1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	web := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	db := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	web.Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "beijing"}, {Cluster: "shanghai"}}
	for want, all := range map[string][]client.Object{
		"to other clusters. Of these it hasn't itself: shop/db.": {web, db},
		"The names of the set end":                               {web},
	} {
		l := leaveCommand{cluster: "beijing"}
		l.member = &objects.Cluster{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).Build()}
		if got := l.own(t.Context()); !strings.Contains(got, want) {
			t.Errorf("%q doesn't say %q", got, want)
		}
	}
}
