package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// enforcesPolicies lets members write to a hub with the chart's admission policies. They use only the credentials that `clusterset
// join` made for them.
func (c *cluster) enforcesPolicies(t *testing.T) {
	const values = "{dns: {enabled: false}, member: {enabled: false}, hub: {enabled: true, admissionPolicy: {enabled: true}}}"
	defer c.Delete(t, c.applyPolicies(t, values)...)
	// The hub process keeps the policies' networks in sync.
	start(t, nil, "clusterset", "hub", "--kubeconfig", c.Kubeconfig(),
		"--metrics-bind-address", "127.0.0.1:"+freeport.For(t), "--health-probe-bind-address", "127.0.0.1:"+freeport.For(t))
	lyon := c.joinPolicy(t, "lyon", "--cidrs", "10.1.0.0/16,10.96.0.0/16,fd00:1::/48", "--network", "edge", "--external-cidrs", "192.0.2.0/24")
	turin := c.joinPolicy(t, "turin") // it declares no networks
	c.joinPolicy(t, "genoa", "--cidrs", "10.2.0.0/16")
	// Policies take effect a moment after their creation.
	kube.Eventually(t, func() error {
		if err := lyon.create(exportedEndpoints("lyon", "10.2.0.1")); !apierrors.IsForbidden(err) {
			return fmt.Errorf("another's address: %v", err)
		}
		return nil
	})

	t.Run("a member can't publish another's addresses", func(t *testing.T) {
		for _, try := range []struct{ what, manifest, says string }{
			{"its own", exportedEndpoints("lyon", "10.1.0.7", "10.1.255.255"), ""},
			{"its own, IPv6", strings.Replace(exportedEndpoints("lyon", "fd00:1::7"), "IPv4", "IPv6", 1), ""},
			{"its own ClusterIP", exportedService("lyon", "10.96.3.4", "fd00:1::4"), ""},
			{"no address", exportedService("lyon"), ""},
			{"genoa's", exportedEndpoints("lyon", "10.2.0.1"), "address 10.2.0.1 lies in none of the networks of cluster lyon: 10.1.0.0/16, 10.96.0.0/16, fd00:1::/48"},
			{"genoa's among its own", exportedEndpoints("lyon", "10.1.0.7", "10.2.0.1", "10.1.0.8", "10.2.0.2"), "address 10.2.0.1 and 1 more lie in none of the networks of cluster lyon"},
			{"genoa's ClusterIP", exportedService("lyon", "10.2.3.4"), "address 10.2.3.4 lies in none"},
			{"the second ClusterIP", exportedService("lyon", "10.96.3.4", "fd00:2::1"), "address fd00:2::1 lies in none"},
			{"one above its network", exportedEndpoints("lyon", "10.2.0.0"), "address 10.2.0.0 lies in none"},
			{"one that only begins like its own", exportedEndpoints("lyon", "10.10.0.1"), "address 10.10.0.1 lies in none"},
			{"its external address", external(exportedEndpoints("lyon", "192.0.2.1")), ""},
			{"another's external address", external(exportedEndpoints("lyon", "198.51.100.1")), "address 198.51.100.1 lies in none of the networks of cluster lyon: 192.0.2.0/24; if it is the cluster's own, an administrator of the hub has to add its network to spec.externalCIDRs"},
			{"its pods' as an external one", external(exportedEndpoints("lyon", "10.1.0.7")), "address 10.1.0.7 lies in none"},
			{"its external address as a pod's", exportedEndpoints("lyon", "192.0.2.1"), "address 192.0.2.1 lies in none"},
			{"an IPv4 address in IPv6 clothes", strings.Replace(exportedEndpoints("lyon", "::ffff:10.2.0.1"), "IPv4", "IPv6", 1), "address ::ffff:10.2.0.1 lies in none"},
		} {
			err := lyon.create(try.manifest)
			if try.says == "" && err != nil || try.says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), try.says)) {
				t.Errorf("%s: %v, want %q", try.what, err, try.says)
			}
		}
		// Nor can it change an accepted record that way.
		if err := lyon.keep(exportedEndpoints("lyon", "10.1.0.7")); err != nil {
			t.Fatal(err)
		}
		patch := []byte(`{"spec":{"endpoints":[{"addresses":["10.2.0.1"]}]}}`)
		if err := lyon.patch("exportedendpoints", "lyon", "web.shop.x-0", patch); !apierrors.IsForbidden(err) {
			t.Errorf("patch: %v", err)
		}
		if err := lyon.patch("exportedendpoints", "lyon", "web.shop.x-0", []byte(`{"metadata":{"labels":{"a":"b"}}}`)); err != nil {
			t.Errorf("patch of its labels: %v", err)
		}
		if err := lyon.remove("exportedendpoints", "lyon", "web.shop.x-0"); err != nil {
			t.Errorf("delete: %v", err)
		}
	})

	t.Run("a member without networks exports any address", func(t *testing.T) {
		if err := turin.create(exportedEndpoints("turin", "10.2.0.1")); err != nil {
			t.Error(err)
		}
		if err := turin.create(external(exportedEndpoints("turin", "10.2.0.1"))); err != nil {
			t.Error(err)
		}
	})

	t.Run("a member keeps nothing else on the hub", func(t *testing.T) {
		endpoints := exportedEndpoints("lyon", "10.1.0.7")
		for _, try := range []struct{ what, manifest, says string }{
			{"its heartbeat", lease("lyon", api.HeartbeatLease), ""},
			{"another Lease", lease("lyon", "storage"), "cannot update resource"}, // its Role; the policy refuses administrators
			{"a finalizer", strings.Replace(endpoints, "metadata: {", "metadata: {finalizers: [example.com/stay], ", 1), "no finalizers"},
			{"a large annotation", strings.Replace(endpoints, "metadata: {", "metadata: {annotations: {x: "+strings.Repeat("x", 5000)+"}, ", 1), "32 annotations with 4096 characters together"},
			{"annotations that are large together", strings.Replace(endpoints, "metadata: {", "metadata: {annotations: {x: "+strings.Repeat("x", 2100)+", y: "+strings.Repeat("x", 2100)+"}, ", 1), "32 annotations with 4096 characters together"},
			{"an owner", strings.Replace(endpoints, "metadata: {", "metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: b}], ", 1), "no owners"},
			{"a manager of a field of 1 KB", strings.Replace(endpoints, "metadata: {", "metadata: {managedFields: [{manager: m, operation: Update, apiVersion: clusterset.dev/v1alpha1, fieldsType: FieldsV1, fieldsV1: {f:"+strings.Repeat("x", 1000)+": {}}}], ", 1), "at most 8 managers of its fields"},
			// The CustomResourceDefinitions reject these, even without policies.
			{"a name that isn't the service's", strings.Replace(exportedService("lyon"), "web.shop", "other.shop", 1), "the name must be <serviceName>.<serviceNamespace>"},
			{"a name that is another service's", strings.Replace(endpoints, "web.shop.x-0", "other.shop.x-0", 1), "the name must begin with <serviceName>.<serviceNamespace>"},
			{"no address at all", exportedEndpoints("lyon", "example.org"), "spec.endpoints[0].addresses[0]: Invalid value"},
			{"an address with a line break", exportedEndpoints("lyon", `10.2.0.1\nfield is fine`), "spec.endpoints[0].addresses[0]: Invalid value"},
			{"a long zone", strings.Replace(endpoints, "addresses: [", "zone: "+strings.Repeat("z", 64)+", addresses: [", 1), "spec.endpoints[0].zone: Too long"},
			{"101 endpoints", exportedEndpoints("lyon", strings.Split(strings.Repeat("10.1.0.7 ", 101), " ")[:101]...), "Too many: 101"},
			{"its report", report("lyon", clustersetv1alpha1.MemberReportName, "zones: [a]"), ""},
			{"another report", report("lyon", "another", "zones: [a]"), "is called clusterset-agent"},
			{"a report of many zones", report("lyon", clustersetv1alpha1.MemberReportName, "zones: [a"+strings.Repeat(", b", 64)+"]"), "Too many: 65"},
			{"a report with a large annotation", strings.Replace(report("lyon", clustersetv1alpha1.MemberReportName, "zones: [a]"), "metadata: {", "metadata: {annotations: {x: "+strings.Repeat("x", 5000)+"}, ", 1), "32 annotations with 4096 characters together"},
			// The member's Role forbids these.
			{"another's report", report("genoa", clustersetv1alpha1.MemberReportName, "zones: [a]"), "cannot create resource"},
			{"a record in another's namespace", exportedEndpoints("genoa", "10.2.0.1"), "cannot create resource"},
			{"another's heartbeat", lease("genoa", api.HeartbeatLease), "cannot update resource"},
		} {
			err := lyon.create(try.manifest)
			if try.says == "" && err != nil || try.says != "" && (err == nil || !strings.Contains(err.Error(), try.says)) {
				t.Errorf("%s: %v, want %q", try.what, err, try.says)
			}
		}
		admin := c.policyClient(t, c.Kubeconfig())
		if err := admin.create(lease("lyon", "storage")); err == nil || !strings.Contains(err.Error(), "the only Lease in a member's namespace is clusterset-heartbeat") {
			t.Errorf("another Lease, by someone whose role allows it: %v", err)
		}
		// The policies ignore the hub's own Leases.
		if err := admin.create(strings.Replace(lease("lyon", "any"), api.MemberNamespace("lyon"), "default", 1)); err != nil {
			t.Errorf("a Lease of the hub's own: %v", err)
		}
	})

	t.Run("a heartbeat is small", func(t *testing.T) { boundsHeartbeats(t, c.policyClient(t, c.Kubeconfig())) }) // who may patch it

	t.Run("a full record of a cluster with many networks is judged", func(t *testing.T) {
		var addresses, cidrs []string
		for i := range 100 {
			addresses = append(addresses, fmt.Sprintf("10.1.2.%d", i))
		}
		for i := range 63 {
			cidrs = append(cidrs, fmt.Sprintf(`"172.16.%d.0/24"`, i))
		}
		c.setCIDRs(t, "lyon", `[`+strings.Join(cidrs, ",")+`,"10.1.0.0/16"]`)
		defer c.setCIDRs(t, "lyon", `["10.1.0.0/16","10.96.0.0/16","fd00:1::/48"]`)
		kube.Eventually(t, func() error { // the network of the ClusterIPs has been removed
			if err := lyon.create(exportedService("lyon", "10.96.3.4")); !apierrors.IsForbidden(err) {
				return fmt.Errorf("with networks that were taken away: %v", err)
			}
			return nil
		})
		if err := lyon.create(exportedEndpoints("lyon", addresses...)); err != nil {
			t.Error(err)
		}
	})

	t.Run("the exporter says so, and exports the rest", func(t *testing.T) { c.reportsRefusals(t, lyon) })

	t.Run("requireCIDRs", func(t *testing.T) {
		c.applyPolicies(t, strings.Replace(values, "enabled: true}}", "enabled: true, requireCIDRs: true}}", 1))
		kube.Eventually(t, func() error {
			err := turin.create(exportedEndpoints("turin", "10.2.0.1"))
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no networks are declared for cluster turin; an administrator of the hub has to set spec.cidrs") {
				return fmt.Errorf("without networks: %v", err)
			}
			return nil
		})
		if err := turin.create(exportedService("turin")); err != nil {
			t.Errorf("a service without addresses: %v", err)
		}
	})

	t.Run("a member that has left can't come back", func(t *testing.T) {
		out, err := exec.Command(built(t, "clusterset"), "leave", "--yes", "--hub-kubeconfig", c.Kubeconfig(), "turin").CombinedOutput()
		if err != nil {
			t.Fatalf("clusterset leave: %v\n%s", err, out)
		}
		// The API server may still accept the token for another ten seconds, but it grants nothing any more.
		if err := turin.create(exportedEndpoints("turin", "10.2.0.1")); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			t.Errorf("with the credentials of a member that left: %v", err)
		}
	})
}

// reportsRefusals runs a member's agent with one service inside its networks and one outside.
func (c *cluster) reportsRefusals(t *testing.T, lyon *policyMember) {
	c.Apply(t, []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: fence}
---
apiVersion: v1
kind: Service
metadata: {namespace: fence, name: inside, annotations: {fabedge.io/global-service: "true"}}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: fence, name: inside-1, labels: {kubernetes.io/service-name: inside}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.7]}]
---
apiVersion: v1
kind: Service
metadata: {namespace: fence, name: outside, annotations: {fabedge.io/global-service: "true"}}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: fence, name: outside-1, labels: {kubernetes.io/service-name: outside}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.2.0.9]}]
`))
	start(t, nil, "clusterset", "member", "--kubeconfig", c.Kubeconfig(), "--hub-kubeconfig", lyon.kubeconfig, "--heartbeat-interval", "1s",
		"--metrics-bind-address", "127.0.0.1:"+freeport.For(t), "--health-probe-bind-address", "127.0.0.1:"+freeport.For(t))
	own := api.MemberNamespace("lyon")
	const refusal = "address 10.2.0.9 lies in none of the networks of cluster lyon: 10.1.0.0/16, 10.96.0.0/16, fd00:1::/48"
	admin := c.policyClient(t, c.Kubeconfig())
	kube.Eventually(t, func() error {
		return errors.Join(
			admin.readyIs("inside", "True", "Exported", ""),
			admin.readyIs("outside", "False", "Failed", refusal),
			admin.hasEvent("outside", refusal),
		)
	})
	c.expectField(t, "clusterset.dev", "v1alpha1", "exportedservices", own, "inside.fence", "inside", "spec", "serviceName")
	// A record that the hub rejects doesn't hold back the other records or the heartbeat.
	c.expectField(t, "coordination.k8s.io", "v1", "leases", own, api.HeartbeatLease, "exporter", "metadata", "labels", api.LabelManagedBy)
	records, err := admin.resource("exportedendpoints", own).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records.Items {
		if strings.HasPrefix(r.GetName(), "outside.fence.") {
			t.Errorf("the hub has %s", r.GetName())
		}
	}
}

func (c *cluster) applyPolicies(t *testing.T, values string) [][]byte {
	t.Helper()
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests)
	policies := only(all, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if len(policies) != 6 { // only the hub's
		t.Fatalf("the chart has %d policies and bindings", len(policies))
	}
	c.Apply(t, encode(t, policies)...)
	return encode(t, policies)
}

// policyMember is a client with one member's credentials.
type policyMember struct {
	client     dynamic.Interface
	kubeconfig string
}

func (c *cluster) joinPolicy(t *testing.T, name string, args ...string) *policyMember {
	t.Helper()
	cmd := exec.Command(built(t, "clusterset"), append([]string{"join", "--hub-kubeconfig", c.Kubeconfig(), name}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("clusterset join: %v", err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return c.policyClient(t, path)
}

func (c *cluster) policyClient(t *testing.T, kubeconfig string) *policyMember {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &policyMember{client, kubeconfig}
}

func (m *policyMember) resource(resource, namespace string) dynamic.ResourceInterface {
	gvr := schema.GroupVersionResource{Group: "clusterset.dev", Version: "v1alpha1", Resource: resource}
	switch resource {
	case "leases":
		gvr = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: resource}
	case "serviceexports":
		gvr = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: resource}
	case "events":
		gvr = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: resource}
	}
	if resource == "memberclusters" {
		return m.client.Resource(gvr)
	}
	return m.client.Resource(gvr).Namespace(namespace)
}

// create tests whether a manifest is admitted, with dry-run.
func (m *policyMember) create(manifest string) error { return m.post(manifest, dryRun) }

// keep creates the manifest's object.
func (m *policyMember) keep(manifest string) error { return m.post(manifest, metav1.CreateOptions{}) }

func (m *policyMember) post(manifest string, options metav1.CreateOptions) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		return err
	}
	resource := map[string]string{"ExportedService": "exportedservices", "ExportedEndpoints": "exportedendpoints", "MemberReport": "memberreports", "Lease": "leases"}[o.GetKind()]
	if resource == "leases" { // may be created only by requests that name it
		_, err := m.resource(resource, o.GetNamespace()).Update(context.Background(), o, metav1.UpdateOptions{DryRun: options.DryRun})
		return err
	}
	_, err := m.resource(resource, o.GetNamespace()).Create(context.Background(), o, options)
	return err
}

func (m *policyMember) patch(resource, member, name string, patch []byte) error {
	_, err := m.resource(resource, api.MemberNamespace(member)).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (m *policyMember) remove(resource, member, name string) error {
	return m.resource(resource, api.MemberNamespace(member)).Delete(context.Background(), name, metav1.DeleteOptions{})
}

func (m *policyMember) readyIs(export, status, reason, says string) error {
	o, err := m.resource("serviceexports", "fence").Get(context.Background(), export, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, condition := range conditions {
		c := condition.(map[string]any)
		if c["type"] == "Ready" && c["status"] == status && c["reason"] == reason && strings.Contains(fmt.Sprint(c["message"]), says) {
			return nil
		}
	}
	return fmt.Errorf("ServiceExport %s: want Ready=%s %s %q, got %v", export, status, reason, says, conditions)
}

func (m *policyMember) hasEvent(export, says string) error {
	events, err := m.resource("events", "fence").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		name, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
		note, _, _ := unstructured.NestedString(e.Object, "note")
		if name == export && strings.Contains(note, says) {
			return nil
		}
	}
	return fmt.Errorf("none of %d Events is about %s and says %q", len(events.Items), export, says)
}

func (c *cluster) setCIDRs(t *testing.T, member, cidrs string) {
	t.Helper()
	admin := c.policyClient(t, c.Kubeconfig())
	if err := admin.patch("memberclusters", "", member, []byte(`{"spec":{"cidrs":`+cidrs+`}}`)); err != nil {
		t.Error(err)
	}
}

func exportedService(member string, ips ...string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata: {namespace: %s, name: web.shop}
spec: {serviceNamespace: shop, serviceName: web, type: ClusterSetIP, exportedAt: "2026-01-01T00:00:00Z", ports: [{port: 80}], clusterIPs: [%s]}
`, api.MemberNamespace(member), quoted(ips))
}

func exportedEndpoints(member string, addresses ...string) string {
	var endpoints []string
	for _, a := range addresses {
		endpoints = append(endpoints, `{addresses: ["`+a+`"]}`)
	}
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata: {namespace: %s, name: web.shop.x-0}
spec: {serviceNamespace: shop, serviceName: web, addressType: IPv4, endpoints: [%s]}
`, api.MemberNamespace(member), strings.Join(endpoints, ", "))
}

// external makes a record one of external addresses.
func external(record string) string {
	return strings.Replace(record, "spec: {", "spec: {external: true, behind: 1, ", 1)
}

func report(member, name, spec string) string {
	return fmt.Sprintf("apiVersion: clusterset.dev/v1alpha1\nkind: MemberReport\nmetadata: {namespace: %s, name: %s}\nspec: {%s}\n", api.MemberNamespace(member), name, spec)
}

func lease(member, name string) string {
	return fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: %s, name: %s}\n", api.MemberNamespace(member), name)
}

func quoted(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return `"` + strings.Join(all, `", "`) + `"`
}
