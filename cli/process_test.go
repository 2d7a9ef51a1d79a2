package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/version"
	"github.com/clusterset/clusterset/prober"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// A process that isn't elected leaves its sign on a bare hub too, takes the Lease from no leader, and keeps it from none.
func TestASignOfLife(t *testing.T) {
	t.Parallel()
	hub, err := connect.NewClient(kube.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubLeaderLease}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: key.Namespace}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a bare hub has the namespace: %v", err)
	}
	begin := time.Now().Truncate(time.Second)
	lease := &coordinationv1.Lease{}
	for _, step := range []struct {
		name string
		lead bool // before it, somebody is elected
		at   time.Duration
		want time.Duration // when the Lease was renewed
		held string
	}{
		{"the namespace", false, 0, -1, ""},
		{"the first", false, time.Second, time.Second, ""},
		{"the next", false, 6 * time.Second, 6 * time.Second, ""},
		{"beside a leader", true, 11 * time.Second, 6 * time.Second, "leader"},
		{"after the leader", false, 22 * time.Second, 22 * time.Second, ""},
	} {
		if step.lead {
			lease.Spec.HolderIdentity = ptr.To("leader")
			if err := hub.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		if err := renewSign(t.Context(), hub, key, begin.Add(step.at)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{}}
		if err := hub.Get(t.Context(), key, lease); step.want < 0 {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", step.name, err)
			}
		} else if err != nil || !lease.Spec.RenewTime.Equal(ptr.To(metav1.NewMicroTime(begin.Add(step.want)))) || ptr.Deref(lease.Spec.HolderIdentity, "") != step.held {
			t.Errorf("%s: %+v, %v; want it renewed %s after the beginning, held by %q", step.name, lease.Spec, err, step.want, step.held)
		}
	}
}

// Rule C74 of docs/spec/control-plane.md: an agent that is installed before join waits, is ready and says so.
func TestAgentWaitsForItsCredentials(t *testing.T) {
	m := &member{hubSecret: "clusterset-system/clusterset-hub-credentials", hubKubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	m.probes = "127.0.0.1:" + freeport.For(t)
	ended := make(chan error, 1)
	go func() { ended <- m.awaitCredentials(t.Context()) }()
	for _, probe := range []string{"/healthz", "/readyz"} {
		kube.Eventually(t, func() error {
			reply, err := http.Get("http://" + m.probes + probe)
			if err != nil {
				return err
			}
			defer func() { _ = reply.Body.Close() }()
			text, err := io.ReadAll(reply.Body)
			if err == nil && (reply.StatusCode != http.StatusOK || !strings.Contains(string(text), "waiting for credentials")) {
				err = fmt.Errorf("%s: %s, %q", probe, reply.Status, text)
			}
			return err
		})
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended without a file: %v", err)
	default:
	}
	if err := os.WriteFile(m.hubKubeconfig, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if answer, err := http.Get("http://" + m.probes + "/readyz"); err == nil {
		_ = answer.Body.Close()
		t.Error("the manager can't have the port")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.hubKubeconfig += ".never"
	if err := m.awaitCredentials(ctx); err != nil {
		t.Errorf("stopped while it waits: %v", err)
	}
}

// Rule D41 of docs/spec/data-path.md: an agent that is told to stop answers for as long as --beacon-linger says.
func TestBeaconLingers(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Hour} {
		t.Run(linger.String(), func(t *testing.T) {
			at := netip.MustParseAddrPort("127.0.0.1:" + freeport.For(t))
			m := &member{beaconBind: at.String(), beaconAddresses: []string{"192.0.2.1:9471"}, beaconLinger: linger}
			m.exports.Cluster = "beijing"
			ctx, stop := context.WithCancel(t.Context())
			ended := m.serveBeacon(ctx)
			if _, err := beacon.Dial(t.Context(), at, "beijing"); err != nil {
				t.Fatal(err)
			}
			stop()
			if linger == 0 {
				<-ended
				if _, err := beacon.Dial(t.Context(), at, "beijing"); !errors.Is(err, beacon.ErrRefused) {
					t.Errorf("it answers: %v", err)
				}
				return
			}
			if _, err := beacon.Dial(t.Context(), at, "beijing"); err != nil {
				t.Errorf("it doesn't answer any more: %v", err)
			}
			select {
			case <-ended:
				t.Error("the process would end")
			default:
			}
		})
	}
	// Rule D42: a beacon that there isn't must not be dialled, or the cluster would count as unreachable.
	t.Run("a port that is taken stops nothing else, and isn't stated", func(t *testing.T) {
		stated := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9471")}
		m := &member{beaconBind: "192.0.2.1:9471", beaconAddresses: []string{"192.0.2.1:9471"}, announcer: prober.Announcer{Addresses: stated}}
		<-m.serveBeacon(t.Context())
		var said clustersetv1alpha1.MemberReportSpec
		if m.announcer.Report(t.Context(), &said); said.Beacons == nil || len(said.Beacons) > 0 {
			t.Errorf("the report states %v", said.Beacons)
		}
	})
	t.Run("nothing to tell the others", func(t *testing.T) {
		<-(&member{beaconBind: "127.0.0.1:0"}).serveBeacon(t.Context())
	})
}

// A release tests with its own image, by a name that has its registry, because some nodes complete no short names. Another build has no image.
func TestDefaultImage(t *testing.T) {
	was := version.String
	defer func() { version.String = was }()
	for is, want := range map[string]string{"v1.2.3": "docker.io/clusterset/clusterset:v1.2.3", "(devel)": "", "v1.2.3-0.20260102030405-abcdef": ""} {
		version.String = func() string { return is }
		if got := defaultImage(); got != want {
			t.Errorf("%s: %q, want %q", is, got, want)
		}
	}
}
