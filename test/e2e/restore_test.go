package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// bump raises etcd's revision by a hundred above past, and compacts all earlier revisions. It does through etcd's API what
// `etcdutl snapshot restore --bump-revision --mark-compacted` does to etcd's files. With past 0 it only returns the revision.
func bump(h *fleettest.Hub, past int) (revision int) {
	h.Helper()
	call := func(path string, request any) []byte {
		answer, err := h.Plane.CallEtcd(context.Background(), path, request)
		if err != nil {
			h.Fatal(err)
		}
		return answer
	}
	for {
		var read struct{ Header struct{ Revision string } }
		err := json.Unmarshal(call("/v3/kv/range", map[string]any{"key": "AA=="}), &read)
		if revision, _ = strconv.Atoi(read.Header.Revision); err != nil || revision == 0 {
			h.Fatalf("etcd's revision is %q: %v", read.Header.Revision, err)
		}
		if past == 0 {
			return revision
		}
		if revision > past+100 {
			break
		}
		for range 100 {
			call("/v3/kv/put", map[string]any{"key": "L2p1bms=", "value": "eA=="})
		}
	}
	call("/v3/kv/compaction", map[string]any{"revision": strconv.Itoa(revision), "physical": true})
	return revision
}

// The hub is restored from a backup. A member that joined after the backup keeps all its names everywhere. As soon as the members notice,
// changes made after the backup are on the hub again, and services that were un-exported after it are removed again. Every watch continues,
// whether the restored revision is behind the one that the watchers have seen, or was bumped.
func TestHubRestoredFromABackup(t *testing.T) {
	f := outages(t)
	for _, bumped := range []bool{false, true} {
		t.Run(fmt.Sprintf("bumped=%v", bumped), func(t *testing.T) {
			if bumped && !fleettest.Long {
				t.Skip("takes half a minute: part of make test-long")
			}
			f := f.For(t)
			ns := f.Namespace("restored")
			beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
			running := []*fleettest.Member{beijing, tianjin}
			name := "only." + ns + ".svc.clusterset.local"
			only := func(address string) string { return slice(ns, "only", port8080, endpoint(address)) }
			both := func(ok func(*fleettest.Member) error, more ...func() error) {
				t.Helper()
				kube.Eventually(t, func() error {
					errs := []error{ok(beijing), ok(tianjin)}
					for _, f := range more {
						errs = append(errs, f())
					}
					return errors.Join(errs...)
				})
			}
			tianjin.Apply(exported(ns, "brief", httpPort))
			beijing.Apply(exported(ns, "only", headless), only("10.200.12.2"))
			both(func(m *fleettest.Member) error {
				return errors.Join(importedFrom(m, ns, "brief", "tianjin"), importedFrom(m, ns, "only", "beijing"))
			})
			if err := clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.Hub.Plane.Kubeconfig(), "shanghai"); err != nil {
				t.Fatal(err)
			}
			lose(f, "shanghai")
			restore := f.Hub.BackUp()

			if err := shanghai.Join(t.Context(), f.Hub); err != nil {
				t.Fatal(err)
			}
			shanghai.RestartAgent()
			f.Settle()
			all := everywhere(f, ns) // shanghai exports for the first time, and the endpoint of "only" is set again
			for _, m := range f.Members {
				delete(all[m], "only."+ns+".svc.global")
				delete(all[m], name)
			}
			beijing.Apply(only("10.200.12.9"), exported(ns, "late", httpPort))
			tianjin.Remove(export(ns, "brief", ""))
			current := func() {
				t.Helper()
				both(func(m *fleettest.Member) error {
					return errors.Join(m.DNS.Answers(name, "A", "10.200.12.9"), importedFrom(m, ns, "late", "beijing"), m.Gone(ns, "brief"))
				}, func() error {
					return errors.Join(holds(f.Hub, "beijing", ns, "only", "10.200.12.9"), f.Recorded("beijing", ns, "late", true), f.Recorded("tianjin", ns, "brief", false))
				})
			}
			current()

			stop := asked{beijing: all[beijing], tianjin: all[tianjin]}.throughout()
			past := bump(f.Hub, 0)
			restore(func() {
				if bumped {
					bump(f.Hub, past)
				}
			})
			began := time.Now()
			current()
			fleettest.Took(t, "all that changed after the backup to be right again, from the return of the API server", began)
			for _, m := range running {
				kube.Eventually(t, func() error { return waitsFor(m, 1) })
			}
			// All watches work: every member sees changes made from now on.
			tianjin.Apply(exported(ns, "after", httpPort))
			beijing.Apply(only("10.200.12.10"))
			both(func(m *fleettest.Member) error {
				return errors.Join(importedFrom(m, ns, "after", "tianjin"), m.DNS.Answers(name, "A", "10.200.12.10"))
			})
			if err := shanghai.Join(t.Context(), f.Hub, "--rejoin"); err != nil {
				t.Fatal(err)
			}
			shanghai.RestartAgent()
			f.Settle()
			kube.Eventually(t, func() error { return nothingHeld(f) })
			stop()
			all.are(f)
			shanghai.DNS.Eventually(name, "A", "10.200.12.10")
		})
	}
}
