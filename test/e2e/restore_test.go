package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// revision returns etcd's current revision.
func revision(h *fleettest.Hub) int {
	h.Helper()
	answer, err := h.Plane.CallEtcd(context.Background(), "/v3/kv/range", map[string]any{"key": "AA=="})
	if err != nil {
		h.Fatal(err)
	}
	var read struct{ Header struct{ Revision string } }
	n := 0
	if err = json.Unmarshal(answer, &read); err == nil {
		n, err = strconv.Atoi(read.Header.Revision)
	}
	if err != nil {
		h.Fatal(err)
	}
	return n
}

// bump raises etcd's revision above past. If compact is set, it also compacts all earlier revisions. It does through etcd's
// API what `etcdutl snapshot restore --bump-revision --mark-compacted` does to etcd's files.
func bump(h *fleettest.Hub, past int, compact bool) {
	h.Helper()
	call := func(path string, request any) {
		h.Helper()
		if _, err := h.Plane.CallEtcd(context.Background(), path, request); err != nil {
			h.Fatal(err)
		}
	}
	for revision(h) <= past {
		for range 100 {
			call("/v3/kv/put", map[string]any{"key": "L2p1bms=", "value": "eA=="})
		}
	}
	if compact {
		call("/v3/kv/compaction", map[string]any{"revision": strconv.Itoa(revision(h)), "physical": true})
	}
}

// The hub is restored from a backup. A member that joined after the backup keeps all its names everywhere. As soon as the
// members notice, changes made after the backup are on the hub again, and services that were un-exported after it are
// removed again. Every watch continues, whether the restored revision is behind the one that the watchers have seen, has
// passed it meanwhile, or was bumped.
func TestHubRestoredFromABackup(t *testing.T) {
	f := outages(t)
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	for _, c := range []struct {
		name           string
		bumped, marked bool
	}{
		{"as it was", false, false},
		{"and has passed the revision of before", true, false},
		{"with --bump-revision --mark-compacted", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bumped && !fleettest.Long {
				t.Skip("takes half a minute: part of make test-long")
			}
			f := f.For(t)
			ns := f.Namespace(fmt.Sprintf("restored-%v-%v", c.bumped, c.marked))
			beijing, tianjin, shanghai := beijing.For(t), tianjin.For(t), shanghai.For(t)
			tianjin.Apply(exported(ns, "brief", httpPort))
			only := func(address string) string { return slice(ns, "only", "1", "IPv4", port8080, endpoint(address)) }
			beijing.Apply(exported(ns, "only", "clusterIP: None, "+httpPort), only("10.200.12.2"))
			for _, m := range []*fleettest.Member{beijing, tianjin} {
				kube.Eventually(t, func() error {
					return errors.Join(importedFrom(m, ns, "brief", "tianjin"), importedFrom(m, ns, "only", "beijing"))
				})
			}
			if err := clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "shanghai"); err != nil {
				t.Fatal(err)
			}
			f.Hub.Kill()
			none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			left := &clustersetv1alpha1.MemberCluster{}
			left.Name = "shanghai"
			if err := f.Hub.Client.Patch(t.Context(), left, none); err != nil {
				t.Fatal(err)
			}
			f.Hub.Start()
			restore := f.Hub.BackUp()

			if err := shanghai.Join(t.Context(), f.Hub); err != nil {
				t.Fatal(err)
			}
			shanghai.RestartAgent()
			f.Settle()
			all := everywhere(f, ns) // shanghai exports for the first time, and the endpoint of "only" is set again
			for _, m := range f.Members {
				delete(all[m], "only."+ns+".svc.global")
				delete(all[m], "only."+ns+".svc.clusterset.local")
			}
			beijing.Apply(only("10.200.12.9"), exported(ns, "late", httpPort))
			tianjin.Remove(export(ns, "brief", ""))
			current := func() error {
				var errs []error
				for _, m := range []*fleettest.Member{beijing, tianjin} {
					errs = append(errs, m.DNS.Answers("only."+ns+".svc.clusterset.local", "A", "10.200.12.9"), importedFrom(m, ns, "late", "beijing"), m.Gone(ns, "brief"))
				}
				return errors.Join(append(errs, holds(f.Hub, "beijing", ns, "only", "10.200.12.9"), f.Recorded("beijing", ns, "late", true), f.Recorded("tianjin", ns, "brief", false))...)
			}
			kube.Eventually(t, current)

			stop := throughout(f, map[*fleettest.Member]map[string]string{beijing: all[beijing], tianjin: all[tianjin]})
			past := revision(f.Hub)
			restore(func() {
				if c.bumped {
					bump(f.Hub, past+100, c.marked)
				}
			})
			began := time.Now()
			kube.Eventually(t, current)
			fleettest.Took(t, "all that changed after the backup to be right again, from the return of the API server", began)
			for _, m := range []*fleettest.Member{beijing, tianjin} {
				kube.Eventually(t, func() error {
					awaited, err := m.Metrics.Sum("clusterset_importer_awaited_clusters")
					if err == nil && awaited != 1 {
						err = fmt.Errorf("%s waits for %v clusters", m.Spec.Name, awaited)
					}
					return err
				})
			}
			// All watches work: every member sees changes made from now on.
			tianjin.Apply(exported(ns, "after", httpPort))
			beijing.Apply(only("10.200.12.10"))
			for _, m := range []*fleettest.Member{beijing, tianjin} {
				kube.Eventually(t, func() error {
					return errors.Join(importedFrom(m, ns, "after", "tianjin"), m.DNS.Answers("only."+ns+".svc.clusterset.local", "A", "10.200.12.10"))
				})
			}
			if err := shanghai.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
				t.Fatal(err)
			}
			shanghai.RestartAgent()
			f.Settle()
			kube.Eventually(t, func() error { return nothingHeld(f) })
			stop()
			stillAnswer(f, all)
			shanghai.DNS.Eventually("only."+ns+".svc.clusterset.local", "A", "10.200.12.10")
		})
	}
}

// A service that is younger than the backup keeps its ClusterSetIP in the other members, however late its cluster comes back, and whether
// their agents ran meanwhile. What a running cluster gave up meanwhile goes. Rule C47 of docs/spec/control-plane.md.
func TestRestoredHubKeepsWhatIsYoungerThanTheBackup(t *testing.T) {
	f := outages(t)
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	for _, phase := range []clustersetv1alpha1.MemberClusterPhase{clustersetv1alpha1.MemberReady, clustersetv1alpha1.MemberExpired} {
		t.Run("and counted as "+string(phase), func(t *testing.T) {
			if phase == clustersetv1alpha1.MemberExpired && !fleettest.Long {
				t.Skip("takes a minute: part of make test-long")
			}
			f := f.For(t)
			ns := f.Namespace("younger-" + strings.ToLower(string(phase)))
			beijing, tianjin, shanghai := beijing.For(t), tianjin.For(t), shanghai.For(t)
			others := []*fleettest.Member{beijing, tianjin}
			if phase == clustersetv1alpha1.MemberExpired {
				f.Hub.Restart("--suspect-after", "4s", "--expire-after", "8s")
				shanghai.KillAgent()
			}
			kube.Eventually(t, func() error { return f.Hub.PhaseIs("shanghai", phase) })
			restore := f.Hub.BackUp()
			f.Hub.Restart()
			shanghai.RestartAgent()
			f.Settle()
			shanghai.Apply(exported(ns, "younger", httpPort))
			tianjin.Apply(exported(ns, "brief", httpPort))
			vips := map[*fleettest.Member]string{}
			for _, m := range others {
				kube.Eventually(t, func() error {
					return errors.Join(importedFrom(m, ns, "younger", "shanghai"), importedFrom(m, ns, "brief", "tianjin"))
				})
				vips[m] = m.VIP(ns, "younger", v4)
			}
			shanghai.KillAgent()
			beijing.StopAgent()
			tianjin.Remove(export(ns, "brief", ""))
			kube.Eventually(t, func() error { return f.Recorded("tianjin", ns, "brief", false) })

			f.Hub.Kill()
			restore(func() {})
			f.Hub.Start()
			kube.Eventually(t, func() error { return f.Recorded("shanghai", ns, "younger", false) })
			began := time.Now()
			beijing.StartAgent()
			kube.Eventually(t, func() error { return beijing.Gone(ns, "brief") }) // 20 s at least, as for what isn't kept longer
			fleettest.Took(t, "what a running cluster gave up while the agent was away to go", began)
			unchanged := func() {
				t.Helper()
				for _, m := range others {
					if err := importedFrom(m, ns, "younger", "shanghai"); err != nil {
						t.Error(err)
					} else if vip := m.VIP(ns, "younger", v4); vip != vips[m] {
						t.Errorf("%s: the ClusterSetIP is %s, was %s", m.Spec.Name, vip, vips[m])
					}
				}
			}
			unchanged()
			shanghai.StartAgent()
			f.Settle()
			kube.Eventually(t, func() error { return nothingHeld(f) })
			unchanged()
			shanghai.Remove(export(ns, "younger", ""))
			for _, m := range others {
				kube.Eventually(t, func() error { return m.Gone(ns, "younger") })
			}
		})
	}
}

// holds returns nil if the hub has that address, and no other, for a member's service.
func holds(h *fleettest.Hub, member, ns, name, address string) error {
	var all clustersetv1alpha1.ExportedEndpointsList
	if err := h.List(&all, client.InNamespace(api.MemberNamespace(member))); err != nil {
		return err
	}
	var has []string
	for _, e := range all.Items {
		if e.Spec.ServiceNamespace == ns && e.Spec.ServiceName == name {
			for _, endpoint := range e.Spec.Endpoints {
				has = append(has, endpoint.Addresses...)
			}
		}
	}
	if strings.Join(has, " ") != address {
		return fmt.Errorf("the hub has %v of %s/%s of %s, want %s", has, ns, name, member, address)
	}
	return nil
}
