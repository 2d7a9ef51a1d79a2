package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

// Rule C30 of docs/spec/control-plane.md and D27 of docs/spec/data-path.md.
func TestImporter(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"), namespace("other"), node("n1", "beijing-1"))

	// The importer deletes objects that an earlier importer left behind, if the hub has no record of them. Those with "stray" in their names were
	// restored from a backup, into another namespace or without their owners (C36).
	w.here(`
apiVersion: v1
kind: Service
metadata: {namespace: other, name: derived-stray, labels: {clusterset.dev/managed-by: importer, multicluster.kubernetes.io/service-name: web}}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: derived-stray, labels: {clusterset.dev/managed-by: importer, multicluster.kubernetes.io/service-name: web}}
spec: {ports: [{port: 80}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: other, name: stray, labels: {clusterset.dev/managed-by: importer}}
spec: {type: ClusterSetIP, ports: [], ips: [10.96.0.99]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: other
  name: imported-stray-web-1
  labels: {clusterset.dev/managed-by: importer, endpointslice.kubernetes.io/managed-by: endpointslice-importer.clusterset.dev,
    multicluster.kubernetes.io/service-name: web, multicluster.kubernetes.io/source-cluster: beijing, kubernetes.io/service-name: web}
  annotations: {clusterset.dev/record: web.shop.x-0, clusterset.dev/export: '{"serviceNamespace":"shop","serviceName":"web","type":"Headless"}'}
addressType: IPv4
endpoints: [{addresses: [10.13.0.1]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: shop
  name: imported-stray-web-2
  labels: {clusterset.dev/managed-by: importer, endpointslice.kubernetes.io/managed-by: endpointslice-importer.clusterset.dev,
    multicluster.kubernetes.io/service-name: web, multicluster.kubernetes.io/source-cluster: baoding}
addressType: IPv4
endpoints: [{addresses: [10.13.0.2]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: other
  name: imported-stray-clusterips
  labels: {clusterset.dev/managed-by: importer, endpointslice.kubernetes.io/managed-by: endpointslice-importer.clusterset.dev,
    multicluster.kubernetes.io/source-cluster: baoding, kubernetes.io/service-name: web}
addressType: IPv4
endpoints: [{addresses: [10.13.0.3]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: other
  name: extends-stray
  labels: {clusterset.dev/managed-by: importer, endpointslice.kubernetes.io/managed-by: endpointslice-importer.clusterset.dev,
    clusterset.dev/extends: web, multicluster.kubernetes.io/source-cluster: baoding, kubernetes.io/service-name: web}
addressType: IPv4
endpoints: [{addresses: [10.13.0.4]}]
---
apiVersion: v1
kind: Service
metadata: {namespace: other, name: copied-label, labels: {clusterset.dev/managed-by: importer}}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: other
  name: copied-label
  labels: {clusterset.dev/managed-by: importer, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io, kubernetes.io/service-name: copied-label}
addressType: IPv4
endpoints: [{addresses: [10.13.0.5]}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: shop, name: orphan, labels: {clusterset.dev/managed-by: importer}}
spec: {type: Headless, ports: []}
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {namespace: shop, name: orphan, labels: {clusterset.dev/managed-by: importer}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: shop
  name: imported-gone-orphan-1
  labels: {clusterset.dev/managed-by: importer, multicluster.kubernetes.io/service-name: orphan}
addressType: IPv4
endpoints: []
`)
	w.onHub(records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5"),
		records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"))
	run := w.start(Options{})

	var vip string
	t.Run("imports what two clusters export", func(t *testing.T) {
		o := w.imported("shop", "web", 2)
		vip = o.derived.Spec.ClusterIP
		if got := o.serviceImport.Spec.IPs; !slices.Equal(got, []string{vip}) {
			t.Errorf("ips are %v, the derived Service has %s", got, vip)
		}
		if o.serviceImport.Status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsPresent {
			t.Errorf("endpointSliceObjects is %q", o.serviceImport.Status.EndpointSliceObjects)
		}
		for _, s := range o.slices {
			if !metav1.IsControlledBy(&s, o.serviceImport) || s.Labels[discoveryv1.LabelServiceName] != o.derived.Name {
				t.Errorf("slice %s has owners %v, labels %v", s.Name, s.OwnerReferences, s.Labels)
			}
		}
		if len(o.global.Spec.Endpoints) != 2 || o.global.Spec.Endpoints[1].Zone != "shanghai-1" {
			t.Errorf("GlobalService has %+v", o.global.Spec)
		}
	})
	t.Run("removes orphans at the start", func(*testing.T) { w.gone("shop", "orphan") })
	t.Run("removes what a backup brought to where nobody uses it", func(t *testing.T) {
		kube.Eventually(t, func() error {
			var left []string
			for _, list := range []client.ObjectList{&corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}, &mcsv1beta1.ServiceImportList{}} {
				if err := w.client.List(t.Context(), list, client.MatchingLabels(desired.Labels())); err != nil {
					return err
				}
				_ = meta.EachListItem(list, func(o runtime.Object) error {
					if name := o.(client.Object).GetName(); strings.Contains(name, "stray") {
						left = append(left, kindOf(o.(client.Object))+" "+client.ObjectKeyFromObject(o.(client.Object)).String())
					}
					return nil
				})
			}
			if len(left) > 0 {
				return fmt.Errorf("left are %s", strings.Join(left, ", "))
			}
			return nil
		})
		// A Service whose owner has copied our label, and so has its slice, isn't one of ours.
		for _, o := range []client.Object{&corev1.Service{}, &discoveryv1.EndpointSlice{}} {
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "copied-label"}, o); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("watches three kinds on the hub", func(t *testing.T) {
		want := map[string]bool{}
		for _, kind := range []string{"exportedservices", "exportedendpoints", "memberclusters"} {
			want["/apis/clusterset.dev/v1alpha1/"+kind] = true
		}
		if got := run.hub.watched(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("watches %v", got)
		}
		if got := run.hub.written(); len(got) > 0 {
			t.Errorf("writes to the hub: %v", got)
		}
	})
	t.Run("writes nothing where nothing changed", func(t *testing.T) {
		w.quiet(run, 1)
		before, done := run.local.written(), reconciles(t)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
		// The records get new resource versions without a change of content; the store tells nobody. Somebody else's annotation here does wake it.
		for _, o := range []client.Object{
			&clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-baoding", Name: "web.shop"}},
			&clustersetv1alpha1.ExportedEndpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-baoding", Name: "web.shop.x-0"}},
		} {
			if err := w.hubClient.Patch(t.Context(), o, patch); err != nil {
				t.Fatal(err)
			}
		}
		here := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		if err := w.client.Patch(t.Context(), here, patch); err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, func() error {
			if reconciles(t) == done {
				return fmt.Errorf("nothing was worked on")
			}
			return nil
		})
		w.quiet(run, 1)
		if after := run.local.written(); len(after) != len(before) {
			t.Errorf("wrote %v", after[len(before):])
		}
	})
	t.Run("writes nothing when it starts again", func(t *testing.T) {
		kube.Eventually(t, func() error { // that the hub answers is written once
			own := &clustersetv1alpha1.MemberCluster{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "beijing"}, own); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(own.Status.Conditions, clustersetv1alpha1.ConditionHubAnswers) {
				return fmt.Errorf("conditions are %v", own.Status.Conditions)
			}
			return nil
		})
		w.quiet(run, 1)
		run.stop()
		run = w.start(Options{})
		w.quiet(run, 1)
		if got := run.local.written(); len(got) > 0 {
			t.Errorf("wrote %v", got)
		}
		if o := w.imported("shop", "web", 2); o.derived.Spec.ClusterIP != vip {
			t.Errorf("the VIP is %s, was %s", o.derived.Spec.ClusterIP, vip)
		}
	})
	t.Run("keeps the VIP when exports change", func(t *testing.T) {
		w.onHub(strings.ReplaceAll(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.6"), "port: 80}", "port: 80}, {name: more, port: 81}"))
		kube.Eventually(t, func() error {
			if o := w.objects("shop", "web"); len(o.serviceImport.Spec.Ports) != 2 || len(o.derived.Spec.Ports) != 2 {
				return fmt.Errorf("ports are %v, %v", o.serviceImport.Spec.Ports, o.derived.Spec.Ports)
			}
			return nil
		})
		if o := w.imported("shop", "web", 2); !slices.Equal(o.serviceImport.Spec.IPs, []string{vip}) {
			t.Errorf("ips are %v, were %s", o.serviceImport.Spec.IPs, vip)
		}
	})
	t.Run("drops a cluster that un-exports, and the service with the last", func(t *testing.T) {
		w.withdraw(records.Exported("shanghai", "shop", "web", "", ""))
		o := w.imported("shop", "web", 1)
		if !slices.Equal(o.serviceImport.Spec.IPs, []string{vip}) || o.slices[0].Labels[api.LabelSourceCluster] != "baoding" {
			t.Errorf("left are %+v", o)
		}
		w.withdraw(records.Exported("baoding", "shop", "web", "", ""))
		w.gone("shop", "web")
	})
	t.Run("imports what its own cluster alone exports", func(t *testing.T) {
		w.exports("10.13.0.5")
		o := w.imported("shop", "web", 1)
		if got := o.serviceImport.Status.Clusters; len(got) != 1 || got[0].Cluster != "beijing" {
			t.Errorf("imported from %v", got)
		}
		w.withdraw(records.Exported("beijing", "shop", "web", "", ""))
		w.gone("shop", "web")
		w.member.Delete(t, join([]string{ownService, ownSlice("10.13.0.5")}))
	})
	t.Run("waits for the namespace", func(t *testing.T) {
		w.onHub(records.Exported("baoding", "later", "web", "10.1.0.2", "10.11.0.6"))
		kube.Eventually(t, func() error {
			if n := metric(t, "clusterset_importer_services", "state", "no_namespace"); n != 1 {
				return fmt.Errorf("%v services without a namespace", n)
			}
			return nil
		})
		w.here(namespace("later"))
		w.imported("later", "web", 1)
	})
	t.Run("leaves kube-system alone", func(t *testing.T) {
		w.onHub(records.Exported("baoding", "kube-system", "kube-dns", "10.1.0.3", "10.11.0.7"))
		kube.Eventually(t, func() error {
			if n := metric(t, "clusterset_importer_services", "state", "excluded"); n != 1 {
				return fmt.Errorf("%v services excluded", n)
			}
			return nil
		})
		if o := w.objects("kube-system", "kube-dns"); !o.empty() {
			t.Errorf("imported %+v", o)
		}
	})
	t.Run("leaves what isn't its own alone, and says so", func(t *testing.T) {
		w.here(`
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {namespace: other, name: web}
spec: {type: Headless, ports: [{port: 7}]}
---
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {namespace: other, name: web, labels: {fabedge.io/created-by: service-hub}}
spec: {type: ClusterIP, endpoints: [{addresses: [10.9.9.9]}]}
`)
		before := w.objects("other", "web")
		w.onHub(records.Exported("baoding", "other", "web", "10.1.0.4", "10.11.0.8"))
		var events eventsv1.EventList
		kube.Eventually(t, func() error {
			for _, kind := range []string{"ServiceImport", "GlobalService"} {
				if n := metric(t, "clusterset_importer_foreign_objects", "kind", kind); n != 1 {
					return fmt.Errorf("%v foreign %ss", n, kind)
				}
			}
			if err := w.client.List(t.Context(), &events, client.InNamespace("other")); err != nil {
				return err
			}
			if len(events.Items) < 2 || events.Items[0].Reason != reasonForeign {
				return fmt.Errorf("events are %+v", events.Items)
			}
			return nil
		})
		after := w.objects("other", "web")
		if after.serviceImport.ResourceVersion != before.serviceImport.ResourceVersion ||
			after.global.ResourceVersion != before.global.ResourceVersion || after.derived != nil || len(after.slices) != 0 {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if err := w.client.Delete(t.Context(), after.serviceImport); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Delete(t.Context(), after.global); err != nil {
			t.Fatal(err)
		}
		w.imported("other", "web", 1)
	})
	t.Run("mirrors MemberClusters", func(t *testing.T) {
		w.here("{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: guangzhou}, spec: {zone: mine}}")
		w.onHub(memberOf("guangzhou"), memberOf("tianjin"))
		w.hub.ApplyStatus(t, []byte("{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: tianjin}, status: {phase: Suspect}}"))
		get := func(name string) (*clustersetv1alpha1.MemberCluster, error) {
			m := &clustersetv1alpha1.MemberCluster{}
			return m, w.client.Get(t.Context(), client.ObjectKey{Name: name}, m)
		}
		kube.Eventually(t, func() error {
			m, err := get("tianjin")
			if err == nil && (m.Status.Phase != clustersetv1alpha1.MemberSuspect || m.Spec.Zone != "tianjin-1") {
				err = fmt.Errorf("mirrored %+v", m)
			}
			return err
		})
		// When the hub loses the MemberCluster, the copy stays and gets a condition.
		w.hub.Delete(t, []byte(memberOf("tianjin")))
		kube.Eventually(t, func() error {
			m, err := get("tianjin")
			if err == nil && !meta.IsStatusConditionFalse(m.Status.Conditions, clustersetv1alpha1.ConditionOnHub) {
				err = fmt.Errorf("conditions are %+v", m.Status.Conditions)
			}
			return err
		})
		// The MemberCluster comes back, and then leaves.
		w.onHub(memberOf("tianjin"))
		kube.Eventually(t, func() error {
			m, err := get("tianjin")
			if err == nil && meta.FindStatusCondition(m.Status.Conditions, clustersetv1alpha1.ConditionOnHub) != nil {
				err = fmt.Errorf("conditions are %+v", m.Status.Conditions)
			}
			return err
		})
		w.hub.ApplyStatus(t, []byte(`{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: tianjin}, status: {
			conditions: [{type: Left, status: "True", reason: Deleted, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`))
		kube.Eventually(t, func() error {
			if _, err := get("tianjin"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("get tianjin: %w", err)
			}
			return nil
		})
		if m, err := get("guangzhou"); err != nil || m.Spec.Zone != "mine" {
			t.Errorf("someone else's MemberCluster is %+v, %v", m, err)
		}
	})
	t.Run("says why the API server refuses a Service", func(t *testing.T) {
		w.here(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-more}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]}
  validations: [{expression: "object.metadata.namespace != 'other'", message: "this namespace has enough Services"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-more}
spec: {policyName: no-more, validationActions: [Deny]}
`)
		trial := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "trial"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		kube.Eventually(t, func() error {
			if err := w.client.Create(t.Context(), trial.DeepCopy(), client.DryRunAll); err == nil {
				return errors.New("the policy is not in force yet")
			}
			return nil
		})
		w.onHub(records.Exported("baoding", "other", "refused", "10.1.0.12", "10.11.0.12"))
		kube.Eventually(t, func() error {
			o := w.objects("other", "refused")
			if o.serviceImport == nil {
				return errors.New("there is no ServiceImport")
			}
			c := meta.FindStatusCondition(o.serviceImport.Status.Conditions, api.ConditionComplete)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "this namespace has enough Services") {
				return fmt.Errorf("condition %+v", c)
			}
			var events eventsv1.EventList
			if err := w.client.List(t.Context(), &events, client.InNamespace("other")); err != nil {
				return err
			}
			for _, e := range events.Items {
				if e.Reason == reasonRefused && e.Regarding.Name == "refused" && strings.Contains(e.Note, "enough Services") {
					return nil
				}
			}
			return fmt.Errorf("no such Event among %d", len(events.Items))
		})
		w.member.Delete(t, []byte("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: no-more}}"))
		w.imported("other", "refused", 1)
	})
	t.Run("deletes its GlobalServices when told to skip them", func(t *testing.T) {
		w.onHub(records.Exported("baoding", "shop", "skipped", "10.1.0.11", "10.11.0.11"))
		w.imported("shop", "skipped", 1)
		w.here("{apiVersion: dns.fabedge.io/v1alpha1, kind: GlobalService, metadata: {namespace: shop, name: theirs}, spec: {type: ClusterIP, endpoints: [{addresses: [10.9.9.9]}]}}")
		run.stop()
		w.start(Options{SkipGlobalServices: true})
		kube.Eventually(t, func() error {
			if o := w.objects("shop", "skipped"); o.global != nil || o.derived == nil {
				return fmt.Errorf("GlobalService %v, derived Service %v", o.global, o.derived)
			}
			return nil
		})
		if w.objects("shop", "theirs").global == nil {
			t.Error("someone else's GlobalService is gone")
		}
	})
}
