package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// backUp stops the hub's etcd, copies it, starts it again, and returns a function that restores the copy. prepare may change
// the copy before the API server starts on it.
func (h *hub) backUp() (restore func(prepare func())) {
	h.Helper()
	data, copied := filepath.Join(h.Dir, "etcd"), filepath.Join(h.TempDir(), "etcd")
	stopped := func(do, prepare func()) {
		h.Helper()
		h.Plane.StopAPIServer()
		h.Plane.StopEtcd()
		do()
		if err := h.Plane.StartEtcd(context.Background()); err != nil {
			h.Fatal(err)
		}
		prepare()
		h.startAPIServer()
	}
	check := func(err error) {
		h.Helper()
		if err != nil {
			h.Fatal(err)
		}
	}
	stopped(func() { check(os.CopyFS(copied, os.DirFS(data))) }, func() {})
	return func(prepare func()) {
		h.Helper()
		stopped(func() { check(errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(copied)))) }, prepare)
	}
}

// revision returns etcd's revision.
func (h *hub) revision() int {
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

// bump raises etcd's revision above another, and compacts all earlier ones if asked. It does through etcd's API what
// `etcdutl snapshot restore --bump-revision --mark-compacted` does to its files.
func (h *hub) bump(past int, compact bool) {
	h.Helper()
	call := func(path string, request any) {
		h.Helper()
		if _, err := h.Plane.CallEtcd(context.Background(), path, request); err != nil {
			h.Fatal(err)
		}
	}
	for h.revision() <= past {
		for range 100 {
			call("/v3/kv/put", map[string]any{"key": "L2p1bms=", "value": "eA=="})
		}
	}
	if compact {
		call("/v3/kv/compaction", map[string]any{"revision": strconv.Itoa(h.revision()), "physical": true})
	}
}

// The hub is restored from a backup. A member that joined after the backup keeps all its names everywhere. Changes made
// after the backup are on the hub again, and services that were un-exported after it are removed again, as soon as the
// members notice. Every watch continues: with a restored revision behind the one that the watchers have seen, with one that
// has passed it meanwhile, and with a bumped one.
func TestHubRestoredFromABackup(t *testing.T) {
	f := outages(t)
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	for _, c := range []struct {
		name           string
		bumped, marked bool
	}{
		{"as it was", false, false},
		{"and has passed the revision of before", true, false},
		{"with --bump-revision --mark-compacted", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bumped && !long {
				t.Skip("takes half a minute: part of make test-long")
			}
			f := f.of(t)
			ns := f.namespace(fmt.Sprintf("restored-%v-%v", c.bumped, c.marked))
			beijing, tianjin, shanghai := beijing.of(t), tianjin.of(t), shanghai.of(t)
			tianjin.apply(exported(ns, "brief", httpPort))
			only := func(address string) string { return slice(ns, "only", "1", "IPv4", port8080, endpoint(address)) }
			beijing.apply(exported(ns, "only", "clusterIP: None, "+httpPort), only("10.200.12.2"))
			for _, m := range []*member{beijing, tianjin} {
				kube.Eventually(t, soon, func() error {
					return errors.Join(m.importedFrom(ns, "brief", "tianjin"), m.importedFrom(ns, "only", "beijing"))
				})
			}
			if err := clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.hub.Plane.Kubeconfig(), "--name", "shanghai"); err != nil {
				t.Fatal(err)
			}
			f.hub.kill()
			none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			left := &clustersetv1alpha1.MemberCluster{}
			left.Name = "shanghai"
			if err := f.hub.Client.Patch(t.Context(), left, none); err != nil {
				t.Fatal(err)
			}
			f.hub.start()
			restore := f.hub.backUp()

			if err := shanghai.join(t.Context(), f.hub); err != nil {
				t.Fatal(err)
			}
			shanghai.restartAgent()
			f.settle()
			all := f.everywhere(ns) // shanghai exports for the first time, and sets only's endpoints to the earlier ones
			for _, m := range f.members {
				delete(all[m], "only."+ns+".svc.global")
				delete(all[m], "only."+ns+".svc.clusterset.local")
			}
			beijing.apply(only("10.200.12.9"), exported(ns, "late", httpPort))
			tianjin.remove(export(ns, "brief", ""))
			current := func() error {
				var errs []error
				for _, m := range []*member{beijing, tianjin} {
					errs = append(errs, m.dns.answers("only."+ns+".svc.clusterset.local", "A", "10.200.12.9"), m.importedFrom(ns, "late", "beijing"), m.gone(ns, "brief"))
				}
				return errors.Join(append(errs, f.hub.holds("beijing", ns, "only", "10.200.12.9"), f.recorded("beijing", ns, "late", true), f.recorded("tianjin", ns, "brief", false))...)
			}
			kube.Eventually(t, soon, current)

			stop := f.throughout(map[*member]map[string]string{beijing: all[beijing], tianjin: all[tianjin]})
			past := f.hub.revision()
			restore(func() {
				if c.bumped {
					f.hub.bump(past+100, c.marked)
				}
			})
			began := time.Now()
			kube.Eventually(t, soon, current)
			took(t, "all that changed after the backup to be right again, from the return of the API server", began)
			for _, m := range []*member{beijing, tianjin} {
				kube.Eventually(t, soon, func() error {
					awaited, err := m.Metrics.Sum("clusterset_importer_awaited_clusters")
					if err == nil && awaited != 1 {
						err = fmt.Errorf("%s waits for %v clusters", m.name, awaited)
					}
					return err
				})
			}
			// All watches work: every member sees changes made from now on.
			tianjin.apply(exported(ns, "after", httpPort))
			beijing.apply(only("10.200.12.10"))
			for _, m := range []*member{beijing, tianjin} {
				kube.Eventually(t, soon, func() error {
					return errors.Join(m.importedFrom(ns, "after", "tianjin"), m.dns.answers("only."+ns+".svc.clusterset.local", "A", "10.200.12.10"))
				})
			}
			if err := shanghai.join(t.Context(), f.hub, "--rejoin"); err != nil {
				t.Fatal(err)
			}
			shanghai.restartAgent()
			f.settle()
			kube.Eventually(t, soon, f.nothingHeld)
			stop()
			f.stillAnswer(all)
			shanghai.dns.eventually("only."+ns+".svc.clusterset.local", "A", "10.200.12.10")
		})
	}
}

// holds returns nil if the hub has that address as the only one of a member's service.
func (h *hub) holds(member, ns, name, address string) error {
	var all clustersetv1alpha1.ExportedEndpointsList
	if err := h.list(&all, client.InNamespace(api.MemberNamespace(member))); err != nil {
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
