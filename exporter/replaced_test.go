package exporter_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

const marked = `{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: marked, labels: {fabedge.io/global-service: "true"}}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}`

// A Service or ServiceExport that is deleted and recreated, or both together, keeps its record. While the Service is gone, the record has
// no addresses. If it doesn't come back, it is withdrawn. Rule C8 of docs/spec/control-plane.md.
func TestReplacedObjectsAreNotWithdrawn(t *testing.T) {
	w := newWorld(t, kube.MCSCRDs()...)
	w.replaceFor = time.Hour // so that no pause of the machine counts
	stop := w.run()
	service := []byte(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: web}}`)
	put := func() {
		w.member.Apply(t, manifest(webService, "web"), manifest(webExport, "web", "v1beta1"), manifest(webService, "marked"), []byte(marked))
	}
	put()
	w.awaitRecords("web", 2)
	w.awaitRecords("marked", 2)
	in := client.InNamespace(api.MemberNamespace("beijing"))
	watcher, err := client.NewWithWatch(w.hub.Config(), client.Options{Scheme: w.onHub.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var list clustersetv1alpha1.ExportedServiceList
	if err := w.onHub.List(t.Context(), &list, in); err != nil {
		t.Fatal(err)
	}
	seen, err := watcher.Watch(t.Context(), list.DeepCopy(), in, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	kept := make(chan error, 1)
	go func() {
		for e := range seen.ResultChan() {
			if s, ok := e.Object.(*clustersetv1alpha1.ExportedService); e.Type == watch.Deleted || ok && !s.Exports() {
				kept <- fmt.Errorf("%s %s", e.Type, s.Name)
				return
			}
		}
		kept <- nil
	}()
	addresses := func(name string, want bool) {
		t.Helper()
		kube.Eventually(t, func() error {
			got := &clustersetv1alpha1.ExportedService{}
			err := w.onHub.Get(t.Context(), types.NamespacedName{Namespace: api.MemberNamespace("beijing"), Name: name + ".shop"}, got)
			if err != nil || (len(got.Spec.ClusterIPs) > 0) != want || len(got.Spec.Ports) != 1 {
				return fmt.Errorf("%+v, %w", got.Spec, err)
			}
			return nil
		})
	}
	for _, step := range []struct {
		name    string
		service string
		deleted [][]byte
		address bool // whether it has addresses meanwhile
		restart bool
	}{
		{"the Service", "web", [][]byte{service}, false, false},
		{"the ServiceExport", "web", [][]byte{manifest(webExport, "web", "v1beta1")}, true, false},
		{"both", "web", [][]byte{service, manifest(webExport, "web", "v1beta1")}, false, false},
		{"both, while the agent restarts", "web", [][]byte{service, manifest(webExport, "web", "v1beta1")}, false, true},
		{"a marked Service, with the ServiceExport that it owns", "marked", [][]byte{[]byte(marked)}, false, false},
	} {
		t.Log("replaced: " + step.name)
		if step.restart {
			stop()
		}
		w.member.Delete(t, step.deleted...)
		if step.restart {
			stop = w.run()
		}
		addresses(step.service, step.address)
		if !step.address {
			w.awaitRecords(step.service, 0)
		}
		put()
		addresses(step.service, true)
		w.awaitRecords(step.service, 2)
		w.awaitCondition(step.service, "Valid=True/Valid", "Ready=True/Exported")
	}
	seen.Stop()
	if err := <-kept; err != nil {
		t.Errorf("withdrawn: %v", err)
	}

	stop()
	w.replaceFor = time.Second
	w.run()
	w.member.Delete(t, service)
	w.awaitRecords("web", -1)
	w.awaitCondition("web", "Valid=False/NoService")
	w.member.Delete(t, []byte(marked))
	w.awaitRecords("marked", -1)
}
