package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// enforcesPolicies lets members write to a hub with the chart's admission policies. They use only the credentials that `clusterset
// join` made for them.
func (c *cluster) enforcesPolicies(t *testing.T) {
	const values = "{dns: {enabled: false}, member: {enabled: false}, hub: {enabled: true, admissionPolicy: {enabled: true}}}"
	defer c.Delete(t, c.applyPolicies(t, values)...)
	// The hub process keeps the policies' networks in sync.
	c.run(t, "hub", "--kubeconfig", c.Kubeconfig())
	lyonKubeconfig := c.join(t, "lyon", "--cidrs", "10.1.0.0/16,10.96.0.0/16,fd00:1::/48", "--network", "edge", "--external-cidrs", "192.0.2.0/24")
	lyon, turin := configOf(t, lyonKubeconfig), configOf(t, c.join(t, "turin")) // which declares no networks
	c.join(t, "genoa", "--cidrs", "10.2.0.0/16")

	t.Run("a member can't publish another's addresses", func(t *testing.T) {
		kept := []byte(`
apiVersion: clusterset.dev/v1alpha1
kind: ExportedEndpoints
metadata: {namespace: clusterset-member-lyon, name: web.shop.kept}
spec: {serviceNamespace: shop, serviceName: web, addressType: IPv4, endpoints: [{addresses: [10.1.0.7]}]}
`)
		kube.Eventually(t, func() error { return c.ApplyContext(t.Context(), kept) }) // once the policies know lyon's networks
		defer c.Delete(t, kept)
		c.attempts(t, "member.addresses.yaml", lyon)
	})

	t.Run("a member without networks exports any address", func(t *testing.T) { c.attempts(t, "member.undeclared.yaml", turin) })

	t.Run("a member keeps nothing else on the hub", func(t *testing.T) { c.attempts(t, "member.storage.yaml", lyon) })

	// A member's heartbeat can't be made larger in any way that a Lease can be. Rule C55 of docs/spec/control-plane.md.
	t.Run("a heartbeat is small", func(t *testing.T) {
		c.Apply(t, []byte(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {namespace: clusterset-member-lyon, name: clusterset-heartbeat, labels: {clusterset.dev/managed-by: exporter, clusterset.dev/cluster: lyon}}
spec: {holderIdentity: `+strings.Repeat("h", 253)+`, leaseDurationSeconds: 40, renewTime: '2026-01-01T00:00:00.000000Z'}
`))
		for _, try := range c.attempts(t, "heartbeat.yaml", c.Config()) {
			if try.result == nil {
				continue
			}
			if content, err := try.result.MarshalJSON(); err != nil || len(content) > 8<<10 {
				t.Errorf("with %s the heartbeat has %d bytes, %v", try.What, len(content), err)
			}
		}
	})

	t.Run("a full record of a cluster with many networks is judged", func(t *testing.T) {
		networks := repeats["each"].(func(int, string) string)(63, `"172.16.%d.0/24"`)
		c.setCIDRs(t, "lyon", `[`+networks+`,"10.1.0.0/16"]`)
		defer c.setCIDRs(t, "lyon", `["10.1.0.0/16","10.96.0.0/16","fd00:1::/48"]`)
		c.attempts(t, "member.full.yaml", lyon)
	})

	t.Run("the exporter says so, and exports the rest", func(t *testing.T) { c.reportsRefusals(t, lyonKubeconfig) })

	t.Run("requireCIDRs", func(t *testing.T) {
		c.applyPolicies(t, strings.Replace(values, "enabled: true}}", "enabled: true, requireCIDRs: true}}", 1))
		c.attempts(t, "member.required.yaml", turin)
	})
}

// reportsRefusals runs a member's agent with one service inside its networks and one outside. A record that the hub rejects doesn't hold
// back the other records or the heartbeat.
func (c *cluster) reportsRefusals(t *testing.T, lyon string) {
	c.Apply(t, []byte(read(t, filepath.Join("attempts", "exporter.there.yaml"))))
	c.run(t, "member", "--kubeconfig", c.Kubeconfig(), "--hub-kubeconfig", lyon, "--heartbeat-interval", "1s")
	admin := resources(t, c.Config())
	for export, want := range map[string]string{
		"inside":  "True Exported",
		"outside": "address 10.2.0.9 lies in none of the networks of cluster lyon: 10.1.0.0/16, 10.96.0.0/16, fd00:1::/48",
	} {
		of := objects(t, "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: fence, name: "+export+"}}")[0]
		kube.Eventually(t, func() error {
			o, err := admin.Get(t.Context(), of)
			if err != nil {
				return err
			}
			ready := meta.FindStatusCondition(as[mcsv1beta1.ServiceExport](t, o).Status.Conditions, "Ready")
			if ready == nil || !strings.Contains(fmt.Sprintf("%s %s: %s", ready.Status, ready.Reason, ready.Message), want) {
				return fmt.Errorf("%s is %+v, want %s", export, ready, want)
			}
			return nil
		})
	}
	c.expect(t, "{apiVersion: clusterset.dev/v1alpha1, kind: ExportedService, metadata: {namespace: clusterset-member-lyon, name: inside.fence}, spec: {serviceName: inside}}")
	c.expect(t, "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: clusterset-member-lyon, name: clusterset-heartbeat, labels: {clusterset.dev/managed-by: exporter}}}")
}

func (c *cluster) applyPolicies(t *testing.T, values string) [][]byte {
	t.Helper()
	policies := only(objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests), policyKinds...)
	if len(policies) != 6 { // only the hub's
		t.Fatalf("the chart has %d policies and bindings", len(policies))
	}
	c.Apply(t, encode(t, policies)...)
	return encode(t, policies)
}

func (c *cluster) setCIDRs(t *testing.T, member, cidrs string) {
	t.Helper()
	of := objects(t, "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: "+member+"}}")[0]
	resource, err := resources(t, c.Config()).Of(of)
	if err == nil {
		_, err = resource.Patch(t.Context(), member, types.MergePatchType, []byte(`{"spec":{"cidrs":`+cidrs+`}}`), metav1.PatchOptions{})
	}
	if err != nil {
		t.Error(err)
	}
}

// confinesAgents makes every write that the role of the agent's account allows. Rule C56 of docs/spec/control-plane.md.
func (c *cluster) confinesAgents(t *testing.T) {
	all, agent := c.confined(t, "{member: {createNamespaces: true, admissionPolicy: {allowedKeys: [cloud.google.com/neg]}}}")
	c.Apply(t, []byte(read(t, filepath.Join("attempts", "agent.there.yaml"))))
	tried := map[string]bool{}
	for _, try := range c.attempts(t, "agent.yaml", agent) {
		tried[try.right] = true
	}
	writes := 0
	for grant := range grantsOf(t, all, "member") {
		f := strings.Fields(grant)
		right := f[1] + " " + f[2]
		// OpenShift asks for endpointslices/restricted besides the right to write the slice.
		if strings.Contains("get list watch", f[1]) || strings.HasSuffix(right, "endpointslices/restricted") {
			continue
		}
		if writes++; !tried[right] {
			t.Errorf("the agent may %s, which wasn't tried", right)
		}
	}
	if writes == 0 {
		t.Error("the agent may write nothing")
	}
}

// extendsEverywhere is what the chart admits with member.extendEverywhere. Rule D62 of docs/spec/data-path.md.
func (c *cluster) extendsEverywhere(t *testing.T) {
	_, agent := c.confined(t, "{member: {createNamespaces: true, extendEverywhere: true}}")
	c.attempts(t, "agent.extend-everywhere.yaml", agent)
	c.confined(t, "{member: {createNamespaces: true}}")
}

// joinsByMemberClusters runs the hub process of a release that lists its members, and an agent with the Secret that the process
// writes for it. Then it tries, with the process's account, what its roles or its admission policy must forbid.
func (c *cluster) joinsByMemberClusters(t *testing.T) {
	const namespace = "kube-system" // not clusterset-system, where the release of runsAgents is
	values := strings.ReplaceAll(read(t, filepath.Join(chartDir, "examples", "hub-members.yaml")), "https://hub.example.com:6443", c.URL())
	values = strings.NewReplacer("beijing", "gent", "shanghai", "pisa").Replace(values)
	all := objects(t, render(t, Options{"declared", namespace, values, newest}).Manifests)
	c.Apply(t, encode(t, only(all, slices.Concat(rbacKinds, policyKinds, []string{"MemberCluster"})...))...)
	hub := deployment(t, all, "hub")
	c.start(t, hub, nil)

	admin, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	secrets := admin.CoreV1().Secrets(api.MemberNamespace("gent"))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	kube.Eventually(t, func() error {
		secret, err := secrets.Get(t.Context(), api.HubSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return os.WriteFile(path, secret.Data[api.HubSecretKey], 0o600)
	})
	c.run(t, "member", "--hub-kubeconfig", path, "--kubeconfig", c.Kubeconfig(), "--leader-elect-namespace", namespace)
	c.expect(t, "{apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: gent}, status: {phase: Ready}}")
	kube.Eventually(t, func() error {
		_, err := secrets.Get(t.Context(), api.HubSecret, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Secret is still there: %w", err)
		}
		return nil
	})
	user, groups := identity(hub)
	kube.Eventually(t, func() error { return c.noneForbidden(user) })
	c.attempts(t, "hub.yaml", c.ConfigFor(user, groups...))
}

// confined installs the agent's account and what confines it, and returns the chart's objects and the account.
func (c *cluster) confined(t *testing.T, values string) ([]*unstructured.Unstructured, *rest.Config) {
	t.Helper()
	all := objects(t, render(t, Options{"clusterset", "clusterset-system", values, newest}).Manifests)
	c.Apply(t, encode(t, only(all, append(rbacKinds, policyKinds...)...))...)
	user, groups := identity(deployment(t, all, "member"))
	return all, c.ConfigFor(user, groups...)
}

// join makes a member, and returns the path of its credentials.
func (c *cluster) join(t *testing.T, name string, args ...string) (kubeconfig string) {
	t.Helper()
	out, err := exec.Command(built(t, "clusterset"), append([]string{"join", "--hub-kubeconfig", c.Kubeconfig(), name}, args...)...).Output()
	if err != nil {
		t.Fatalf("clusterset join: %v", err)
	}
	kubeconfig = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(kubeconfig, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// run runs clusterset without metrics and probes until the test ends.
func (c *cluster) run(t *testing.T, args ...string) {
	t.Helper()
	start(t, nil, "clusterset", append(args, "--metrics-bind-address", "0", "--health-probe-bind-address", "0")...)
}
