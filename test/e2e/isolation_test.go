package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// verbs are the possible requests for a resource, and how to make them.
var verbs = map[string]func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) error{
	"get": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
		return err
	},
	"list": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		_, err := r.List(ctx, metav1.ListOptions{})
		return err
	},
	"watch": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		w, err := r.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			w.Stop()
		}
		return err
	},
	"create": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Create(ctx, o, metav1.CreateOptions{})
		return err
	},
	"update": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Update(ctx, o, metav1.UpdateOptions{})
		return err
	},
	"patch": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
		return err
	},
	"delete": func(ctx context.Context, r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		return r.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
	},
	"deletecollection": func(ctx context.Context, r dynamic.ResourceInterface, _ *unstructured.Unstructured) error {
		return r.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	},
}

const (
	reading = "get list watch"
	nothing = ""
)

// The test tries every verb with the rights that join gives a member, with the agent's own credentials: on everything in
// another member's namespace except reading our records, on every other kind anywhere, and on everything cluster-wide.
// internal/join asks the hub's authorizer about every kind that the hub serves; here the requests are made.
func TestCredentialsReachNothingElse(t *testing.T) {
	f := cities(t)
	ns := f.namespace("isolation")
	victim := f.member("minhang")
	victim.apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.202.13.1")))
	kube.Eventually(t, soon, func() error { return f.recorded("minhang", ns, "web", true) })
	kube.Eventually(t, soon, func() error { // its endpoints are a separate record, written after it
		if records := f.hub.versions("minhang", ns); !strings.Contains(records, "web."+ns+".") {
			return fmt.Errorf("no endpoints of web.%s among %s", ns, records)
		}
		return nil
	})
	before := f.hub.versions("minhang", ns)

	attacker := f.member("xicheng")
	c, err := dynamic.NewForConfig(attacker.onHub())
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := api.MemberNamespace("xicheng"), api.MemberNamespace("minhang")
	name := api.ExportedServiceName(ns, "web")
	for _, r := range []struct {
		group, version, resource, kind, namespace, name string
		allowed                                         string
	}{
		{"clusterset.dev", "v1alpha1", "exportedservices", "ExportedService", theirs, name, reading},
		{"clusterset.dev", "v1alpha1", "exportedendpoints", "ExportedEndpoints", theirs, name + ".x-0", reading},
		{"coordination.k8s.io", "v1", "leases", "Lease", theirs, api.HeartbeatLease, nothing},
		{"coordination.k8s.io", "v1", "leases", "Lease", own, "another", "create"}, // the authorizer doesn't know the name of an object to be created
		{"coordination.k8s.io", "v1", "leases", "Lease", "kube-system", "x", nothing},
		{"clusterset.dev", "v1alpha1", "memberclusters", "MemberCluster", "", "minhang", reading},
		{"clusterset.dev", "v1alpha1", "memberclusters", "MemberCluster", "", "xicheng", reading},
		{"", "v1", "secrets", "Secret", own, "x", nothing},
		{"", "v1", "secrets", "Secret", theirs, "x", nothing},
		{"", "v1", "secrets", "Secret", "kube-system", "x", nothing},
		{"", "v1", "configmaps", "ConfigMap", "kube-system", "extension-apiserver-authentication", nothing},
		{"", "v1", "serviceaccounts", "ServiceAccount", own, api.MemberServiceAccount, nothing},
		{"", "v1", "serviceaccounts", "ServiceAccount", theirs, api.MemberServiceAccount, nothing},
		{"", "v1", "pods", "Pod", own, "x", nothing},
		{"", "v1", "pods", "Pod", "default", "x", nothing},
		{"", "v1", "services", "Service", "default", "kubernetes", nothing},
		{"", "v1", "namespaces", "Namespace", "", theirs, nothing},
		{"", "v1", "nodes", "Node", "", "x", nothing},
		{"", "v1", "events", "Event", own, "x", nothing},
		{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "default", "x", nothing},
		{"apps", "v1", "deployments", "Deployment", own, "x", nothing},
		{"rbac.authorization.k8s.io", "v1", "roles", "Role", own, api.MemberRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", own, api.MemberRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", api.MemberClusterRole, nothing},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", "", theirs, nothing},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "", "memberclusters.clusterset.dev", nothing},
	} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: r.group, Version: r.version, Kind: r.kind})
		o.SetNamespace(r.namespace)
		o.SetName(r.name)
		var resource dynamic.ResourceInterface = c.Resource(schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource})
		if r.namespace != "" {
			resource = resource.(dynamic.NamespaceableResourceInterface).Namespace(r.namespace)
		}
		for verb, try := range verbs {
			if strings.Contains(" "+r.allowed+" ", " "+verb+" ") {
				continue
			}
			if err := try(t.Context(), resource, o.DeepCopy()); !apierrors.IsForbidden(err) {
				t.Errorf("%s %s %s/%s: %v, want it forbidden", verb, r.resource, r.namespace, r.name, err)
			}
		}
	}
	for what, config := range map[string]func(*rest.Config){
		"the other member": func(c *rest.Config) {
			c.Impersonate.UserName = "system:serviceaccount:" + theirs + ":" + api.MemberServiceAccount
		},
		"an admin": func(c *rest.Config) { c.Impersonate.UserName, c.Impersonate.Groups = "x", []string{"system:masters"} },
	} {
		impersonating := attacker.onHub()
		config(impersonating)
		k, err := kubernetes.NewForConfig(impersonating)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("it can pass for %s: %v", what, err)
		}
	}
	k, err := kubernetes.NewForConfig(attacker.onHub())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().ServiceAccounts(theirs).CreateToken(t.Context(), api.MemberServiceAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it can have the other member's token: %v", err)
	}
	if now := f.hub.versions("minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}
}

// attack stops a member's agent, which would remove foreign records, and returns a function that writes manifests to the hub
// with the agent's credentials. When the test ends the agent runs again and removes what is left of them.
func (f *fleet) attack(from string) func(manifests ...string) error {
	f.Helper()
	m := f.member(from)
	c, err := client.New(m.onHub(), client.Options{Scheme: testfleet.Scheme})
	if err != nil {
		f.Fatal(err)
	}
	m.killAgent()
	f.Cleanup(func() {
		m.startAgent()
		f.settle()
	})
	return func(manifests ...string) error {
		for _, text := range manifests {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), o); err != nil {
				return err
			}
			if err := c.Create(context.Background(), o); err != nil {
				return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
		return nil
	}
}

func exportedService(in, ns, name, more string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedService
metadata:
  namespace: %s
  name: %s.%s
  labels: {clusterset.dev/cluster: minhang, multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/service-namespace: %s}
spec: {serviceNamespace: %s, serviceName: %s, exportedAt: "1970-01-02T00:00:00Z", %s}
`, api.MemberNamespace(in), name, ns, ns, ns, name, more)
}

func exportedEndpoints(in, ns, name, suffix, more string) string {
	return fmt.Sprintf(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata:
  namespace: %s
  name: %s.%s.%s
  labels: {clusterset.dev/cluster: minhang, multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/service-namespace: %s}
spec: {serviceNamespace: %s, serviceName: %s, %s}
`, api.MemberNamespace(in), name, ns, suffix, ns, ns, name, more)
}

// A member can only write records of its own name: labels and payload that name another cluster don't change that cluster's
// part of a service.
func TestForgedOriginChangesNothing(t *testing.T) {
	f := cities(t)
	ns := f.namespace("forged")
	victim := f.member("minhang")
	headless := "clusterIP: None, " + httpPort
	victim.apply(exported(ns, "db", headless), slice(ns, "db", "1", "IPv4", port8080, endpoint("10.202.14.1", "hostname: db-0")))
	f.eventually(func(m *member) error { return m.importedFrom(ns, "db", "minhang") })
	before := f.hub.versions("minhang", ns)

	write := f.attack("xicheng")
	reserved := `exportedLabels: {multicluster.kubernetes.io/source-cluster: minhang, clusterset.dev/managed-by: someone, team: mine}`
	if err := write(
		exportedService("xicheng", ns, "db", "type: Headless, cluster: minhang, sourceCluster: minhang, ports: [{name: http, port: 80}], "+reserved),
		exportedEndpoints("xicheng", ns, "db", "x-0", `addressType: IPv4, cluster: minhang, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["10.200.14.66"], hostname: db-0, zone: shanghai}]`),
	); err != nil {
		t.Fatal(err)
	}
	others := f.members[1:]
	for _, m := range others {
		kube.Eventually(t, soon, func() error {
			i, err := m.imported(ns, "db")
			if err != nil || i.serviceImport == nil || len(i.slices) != 2 {
				return fmt.Errorf("%d slices, %w", len(i.slices), err)
			}
			for _, s := range i.slices {
				want := map[string]string{"10.200.14.66": "xicheng", "10.202.14.1": "minhang"}[s.Endpoints[0].Addresses[0]]
				if s.Labels[api.LabelSourceCluster] != want {
					t.Errorf("%s: the slice with %v is said to come from %s", m.name, s.Endpoints[0].Addresses, s.Labels[api.LabelSourceCluster])
				}
			}
			if l := i.serviceImport.Labels; l["team"] != "mine" || l[api.LabelManagedBy] != api.ManagedByImporter || l[api.LabelSourceCluster] != "" {
				t.Errorf("%s: labels are %v", m.name, l)
			}
			return m.importedFrom(ns, "db", "xicheng", "minhang")
		})
		for _, zone := range []string{"clusterset.local", "global"} {
			m.dns.eventually("db-0.minhang.db."+ns+".svc."+zone, "A", "10.202.14.1")
			m.dns.eventually("db-0.xicheng.db."+ns+".svc."+zone, "A", "10.200.14.66")
		}
		m.dns.eventually("minhang.db."+ns+".svc.global", "A", "10.202.14.1")
	}
	if now := f.hub.versions("minhang", ns); now != before {
		t.Errorf("the other member's records are\n%s, were\n%s", now, before)
	}

	// Where an administrator has declared a member's networks, it can't export other addresses.
	setCIDRs := func(cidrs string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cidrs":`+cidrs+`}}`))
		if err := f.hub.Client.Patch(context.Background(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "xicheng"}}, patch); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { setCIDRs("null") })
	setCIDRs(`["10.100.0.0/16"]`) // the third part that is left out: two are labels
	for _, m := range others {
		m.dns.eventually("db-0.xicheng.db."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
		m.dns.eventually("db-0.minhang.db."+ns+".svc.clusterset.local", "A", "10.202.14.1")
		kube.Eventually(t, soon, func() error { return m.hasEvent("ServiceImport", ns, "db", "InvalidExport", "3 parts", "xicheng") })
	}
}

// Values that the hub's CRDs accept but no cluster should believe are left out, counted and reported. The rest of the record
// is imported.
func TestHostilePayloads(t *testing.T) {
	f := cities(t)
	ns := f.namespace("hostile")
	victim := f.member("minhang")
	victim.apply(exported(ns, "web", httpPort), unranked(ns, "web"), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.202.15.1")))
	f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "minhang") })
	others := f.members[1:]
	dropped := map[string]float64{}
	for _, m := range others {
		n, err := m.Metrics.Sum("clusterset_importer_dropped_values_total", "member", "xicheng")
		if err != nil {
			t.Fatal(err)
		}
		dropped[m.name] = n
	}
	write := f.attack("xicheng")

	t.Run("the hub refuses what can't be", func(t *testing.T) {
		for what, manifest := range map[string]string{
			"a name that isn't the service's": strings.Replace(exportedService("xicheng", ns, "a", "type: Headless"), "name: a."+ns, "name: b."+ns, 1),
			"an upper-case name":              exportedService("xicheng", ns, "Web", "type: Headless"),
			"a name with a dot":               exportedService("xicheng", ns, "a.b", "type: Headless"),
			"a port too high":                 exportedService("xicheng", ns, "a", "type: ClusterSetIP, ports: [{port: 65536}]"),
			"an unknown type":                 exportedService("xicheng", ns, "a", "type: ExternalName"),
			"names in place of addresses":     exportedEndpoints("xicheng", ns, "a", "x-0", "addressType: FQDN, endpoints: [{addresses: [example.org]}]"),
			"too many endpoints": exportedEndpoints("xicheng", ns, "a", "x-0", "addressType: IPv4, endpoints: ["+
				strings.Repeat(`{addresses: ["10.200.15.1"]}, `, 100)+`{addresses: ["10.200.15.1"]}]`),
		} {
			if err := write(manifest); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})

	addresses := []string{"127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "nonsense"}
	var endpoints []string
	for _, a := range addresses {
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%q]}", a))
	}
	endpoints = append(endpoints, `{addresses: ["10.200.15.1"], hostname: "UPPER.case", zone: " padded"}`)
	if err := write(
		exportedService("xicheng", ns, "web", `type: ClusterSetIP, clusterIPs: ["127.0.0.53"], ports: [{name: http, port: 80}], policy: {prefer: none}, exportedLabels: {"not a key": "1", kubernetes.io/service-name: kubernetes}`),
		exportedEndpoints("xicheng", ns, "web", "x-0", "addressType: IPv4, ports: [{name: http, port: 8080}, {name: http, port: 8081}, {name: none}], endpoints: ["+strings.Join(endpoints, ", ")+"]"),
		exportedEndpoints("xicheng", ns, "web", "x-6", `addressType: IPv6, ports: [{name: http, port: 8080}], endpoints: [{addresses: ["::1"]}, {addresses: ["fe80::1"]}, {addresses: ["fd00::1%eth0"]}, {addresses: ["10.200.15.2"]}]`),
		exportedService("xicheng", ns, "bare", "type: Headless"),
		exportedEndpoints("xicheng", ns, "bare", "x-0", "addressType: IPv4, endpoints: ["+strings.Join(endpoints, ", ")+"]"),
	); err != nil {
		t.Fatal(err)
	}
	for _, m := range others {
		t.Run(m.name+" leaves it out", func(t *testing.T) {
			kube.Eventually(t, soon, func() error {
				i, err := m.imported(ns, "web")
				if err != nil {
					return err
				}
				return errors.Join(m.importedFrom(ns, "web", "minhang", "xicheng"),
					m.proxied(ns, "web", map[string][]string{"http 80/TCP": {"10.200.15.1:8080", "10.202.15.1:8080"}}),
					checkNotNil(i.global != nil && len(i.global.Spec.Endpoints) == 1, "GlobalService with the good ClusterIP alone"),
					m.hasEvent("ServiceImport", ns, "web", "InvalidExport", "xicheng"),
					m.hasEvent("ServiceImport", ns, "bare", "InvalidExport", "xicheng"))
			})
			m.dns.eventually("web."+ns+".svc.global", "A", victim.clusterIP(ns, "web", v4))
			m.dns.eventually("bare."+ns+".svc.clusterset.local", "A", "10.200.15.1")
			n, err := m.Metrics.Sum("clusterset_importer_dropped_values_total", "member", "xicheng")
			if err != nil || n-dropped[m.name] < float64(2*len(addresses)) {
				t.Errorf("%v values were counted, %v before, %v", n, dropped[m.name], err)
			}
		})
	}

	t.Run("objects of a megabyte", func(t *testing.T) {
		long := strings.Repeat("z", 10_000)
		var endpoints, keys []string
		for n := range 100 {
			endpoints = append(endpoints, fmt.Sprintf(`{addresses: ["10.200.16.%d"], zone: %q}`, n+1, long))
		}
		for n := range 64 {
			keys = append(keys, fmt.Sprintf("k%d: %q", n, strings.Repeat("v", 15_000)))
		}
		if err := write(
			exportedService("xicheng", ns, "large", "type: Headless, exportedAnnotations: {"+strings.Join(keys, ", ")+"}"),
			exportedEndpoints("xicheng", ns, "large", "x-0", "addressType: IPv4, endpoints: ["+strings.Join(endpoints, ", ")+"]"),
		); err != nil {
			t.Fatal(err)
		}
		for _, m := range others {
			kube.Eventually(t, soon, func() error {
				var imp mcsv1beta1.ServiceImport
				i, err := m.imported(ns, "large")
				if err := errors.Join(err, m.get(ns, "large", &imp), m.importedFrom(ns, "large", "xicheng")); err != nil {
					return err
				}
				size := 0
				for k, v := range imp.Annotations {
					size += len(k) + len(v)
				}
				if size > 100_000 || len(i.slices) != 1 || len(i.slices[0].Endpoints) != 100 || i.slices[0].Endpoints[0].Zone == nil ||
					*i.slices[0].Endpoints[0].Zone != "beijing" { // its cluster's zone, in place of the invalid one
					return fmt.Errorf("annotations of %d bytes, %d slices", size, len(i.slices))
				}
				return m.hasEvent("ServiceImport", ns, "large", "InvalidExport", "xicheng")
			})
			if r, err := m.dns.reply("10-200-16-7.xicheng.large."+ns+".svc.clusterset.local", "A"); err != nil || len(r.Answer) != 1 {
				t.Errorf("%s: %v, %v", m.name, r, err)
			}
		}
	})
	for _, m := range others {
		if !m.agent.Running() || !m.dns.Running() {
			t.Errorf("%s: something died of it", m.name)
		}
	}
	// The agent starts again and finds records in its namespace of services that its cluster doesn't export.
	f.member("xicheng").startAgent()
	for _, name := range []string{"web", "bare", "large"} {
		kube.Eventually(t, soon, func() error { return f.recorded("xicheng", ns, name, false) })
	}
	f.eventually(func(m *member) error {
		return errors.Join(m.importedFrom(ns, "web", "minhang"), m.gone(ns, "bare"), m.gone(ns, "large"))
	})
	// The exporter reports it to the cluster's own user before it sends anything.
	a := f.member("xicheng")
	a.apply(service(ns, "own", httpPort), export(ns, "own", `exportedLabels: {kubernetes.io/service-name: kubernetes}`))
	kube.Eventually(t, soon, func() error {
		var e mcsv1beta1.ServiceExport
		if err := a.get(ns, "own", &e); err != nil {
			return err
		}
		c := condition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))
		if c == nil || !strings.Contains(c.Message, "kubernetes.io/service-name") {
			return fmt.Errorf("Ready is %+v", c)
		}
		return nil
	})
}

// A member that joined after a service was exported claims 1970 as the creation time of its own export of it, with another
// type. It doesn't win, and the ServiceExport with the conflicting type names the member, as does an Event.
func TestAClaimOf1970NamesItsCluster(t *testing.T) {
	f := outages(t)
	ns := f.namespace("claims-1970")
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	if err := clustersetCommand(t.Context(), "leave", "--yes", "--hub-kubeconfig", f.hub.Plane.Kubeconfig(), "--name", "shanghai"); err != nil {
		t.Fatal(err)
	}
	beijing.apply(exported(ns, "web", httpPort))
	others := []*member{beijing, tianjin}
	vips := map[*member]string{}
	for _, m := range others {
		kube.Eventually(t, soon, func() error { return m.importedFrom(ns, "web", "beijing") })
		vips[m] = m.vip(ns, "web", v4)
	}
	beijing.letASecondPass(ns, "web")
	if err := shanghai.join(t.Context(), f.hub); err != nil {
		t.Fatal(err)
	}
	write := f.attack("shanghai")
	if err := write(exportedService("shanghai", ns, "web", "type: Headless, ports: [{name: http, port: 80}]")); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, soon, func() error {
		return errors.Join(
			beijing.exportIs(ns, "web", mcsv1beta1.ServiceExportConditionConflict, "True", "TypeConflict"),
			beijing.hasEvent("ServiceExport", ns, "web", "TypeConflict", "shanghai (1 of 2 clusters) disagrees with beijing"),
		)
	})
	var export mcsv1beta1.ServiceExport
	if err := beijing.get(ns, "web", &export); err != nil {
		t.Fatal(err)
	}
	if c := condition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c == nil || !strings.Contains(c.Message, "shanghai (1 of 2 clusters) disagrees with beijing") {
		t.Errorf("the ServiceExport doesn't name shanghai: %+v", c)
	}
	for _, m := range others {
		kube.Eventually(t, soon, func() error { return m.importedFrom(ns, "web", "beijing", "shanghai") })
		i, err := m.imported(ns, "web")
		if err != nil || i.serviceImport.Spec.Type != mcsv1beta1.ClusterSetIP || m.vip(ns, "web", v4) != vips[m] {
			t.Errorf("%s: the import became %+v, its address was %s; %v", m.name, i.serviceImport.Spec, vips[m], err)
		}
	}
}
