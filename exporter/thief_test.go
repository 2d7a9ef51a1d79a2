package exporter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// A thief of the member's token leaves as much metadata as the hub's policies admit, so that they refuse whatever the agent adds. Once the
// token is revoked, the agent's heartbeat and records are what they were.
// Rules C5 and C55 of docs/spec/control-plane.md, S59 of docs/security.md.
func TestAnAgentRecoversFromWhatAThiefLeftInItsMetadata(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	thief := w.thief()
	w.enforcePolicies()
	w.member.Apply(t, manifest(webService, "web"), manifest(webExport, "web", "v1beta1"))
	stop := w.run()
	w.awaitRecords("web", 2)
	kube.Eventually(t, func() error {
		_, err := w.lease()
		_, errReport := w.report()
		return errors.Join(err, errReport)
	})
	stop()

	lease, err := w.lease()
	if err != nil {
		t.Fatal(err)
	}
	lease.Labels = nil
	w.fill(thief, lease, 8, 0, map[string]any{"f:spec": map[string]any{"f:renewTime": map[string]any{}}})
	report, err := w.report()
	if err != nil {
		t.Fatal(err)
	}
	report.Labels, report.Spec = nil, clustersetv1alpha1.MemberReportSpec{CantFollow: "lyon"}
	w.fill(thief, report, 32, 32, map[string]any{"f:spec": map[string]any{"f:cantFollow": map[string]any{}}})
	fields := map[string]any{"f:spec": map[string]any{"f:serviceName": map[string]any{}}}
	services, endpoints := w.recordsOf("web")
	services[0].Spec.Ports, services[0].Labels = nil, nil
	w.fill(thief, &services[0], 31, 32, fields)
	endpoints[0].Spec.Endpoints[0].Addresses, endpoints[0].Labels = []string{"10.1.0.66"}, nil
	w.fill(thief, &endpoints[0], 31, 32, fields)

	w.run()
	foreign := func(o client.Object) error {
		for _, all := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
			for key := range all {
				if strings.HasPrefix(key, "example.com/") {
					return fmt.Errorf("%T has the thief's %s", o, key)
				}
			}
		}
		return nil
	}
	kube.Eventually(t, func() error {
		services, endpoints := w.recordsOf("web")
		if len(services) != 1 || len(services[0].Spec.Ports) != 1 || len(endpoints) != 1 || endpoints[0].Spec.Endpoints[0].Addresses[0] != "10.1.0.1" {
			return fmt.Errorf("the thief's records are still there: %+v, %+v", services, endpoints)
		}
		return errors.Join(foreign(&services[0]), foreign(&endpoints[0]))
	})
	kube.Eventually(t, func() error {
		now, err := w.lease()
		if err != nil {
			return err
		}
		if !lease.Spec.RenewTime.Before(now.Spec.RenewTime) || len(now.ManagedFields) != 1 {
			return fmt.Errorf("no heartbeat since: %+v", now.ObjectMeta)
		}
		said, err := w.report()
		if err != nil || said.Spec.Zones == nil || said.Spec.CantFollow != "" {
			return fmt.Errorf("it reports %+v, %w", said.Spec, err)
		}
		return errors.Join(foreign(now), foreign(said))
	})
}

// thief returns a client with the member's token.
func (w *world) thief() client.Client {
	w.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	thief, err := connect.NewClient(config)
	if err != nil {
		w.Fatal(err)
	}
	return thief
}

// enforcePolicies gives the hub the chart's admission policies, and waits until they hold.
func (w *world) enforcePolicies() {
	w.Helper()
	rendered, err := os.ReadFile("../test/chart/testdata/hub.yaml")
	if err != nil {
		w.Fatal(err)
	}
	for document := range strings.SplitSeq(string(rendered), "\n---\n") {
		if strings.Contains(document, "# templates/hub/admissionpolicy.yaml\n") {
			w.hub.Apply(w, []byte(document))
		}
	}
	in := metav1.ObjectMeta{Namespace: api.MemberNamespace("beijing"), Name: "web.shop", Finalizers: []string{"example.com/stay"}}
	record := &clustersetv1alpha1.ExportedService{
		ObjectMeta: in, Spec: clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: "shop", ServiceName: "web", Type: "ClusterSetIP", ExportedAt: metav1.Now()},
	}
	in.Name = api.HeartbeatLease
	lease := &coordinationv1.Lease{ObjectMeta: in}
	kube.Eventually(w, func() error {
		for _, o := range []client.Object{record, lease} {
			if err := w.onHub.Create(w.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a finalizer on %T: %w", o, err)
			}
		}
		return nil
	})
}

// fill adds foreign labels and annotations to an object on the hub, and writes it. Then it gives it as many managers as the policies admit.
func (w *world) fill(thief client.Client, o client.Object, labels, annotations int, fields map[string]any) {
	w.Helper()
	many := func(n int, to map[string]string) map[string]string {
		if to == nil {
			to = map[string]string{}
		}
		for i := range n {
			to[fmt.Sprintf("example.com/k%d", i)] = "x"
		}
		return to
	}
	o.SetLabels(many(labels, o.GetLabels()))
	o.SetAnnotations(many(annotations, nil))
	var managers []metav1.ManagedFieldsEntry
	kind, err := w.onHub.GroupVersionKindFor(o)
	raw, invalid := json.Marshal(fields)
	if err := errors.Join(err, invalid); err != nil {
		w.Fatal(err)
	}
	for i := range 8 {
		managers = append(managers, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprintf("m%d", i), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: kind.GroupVersion().String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
		})
	}
	for range 2 { // who changes a field manages it, so it takes a write that changes nothing else
		o.SetManagedFields(slices.Clone(managers))
		if err := thief.Update(w.Context(), o, client.FieldOwner("m0")); err != nil {
			w.Fatal(err)
		}
	}
	if n := len(o.GetManagedFields()); n != len(managers) {
		w.Fatalf("%T has %d managers, want %d", o, n, len(managers))
	}
}
