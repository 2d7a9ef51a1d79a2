package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/kube"
)

// startsCorefiles runs the real server with each rendered Corefile, with the account and the environment that the chart gives it.
// An answer shows that the rights suffice, because the server would answer SERVFAIL if one were missing. The labels of CoreDNS's metrics, which
// alerts and dashboards select, depend on the Corefile's plugins.
func (c *cluster) startsCorefiles(t *testing.T) {
	for _, e := range examples(t) {
		all := objects(t, render(t, e.Options).Manifests)
		if deployment(t, all, "dns") == nil {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			rights := encode(t, only(all, rbacKinds...))
			c.Apply(t, rights...)
			defer c.Delete(t, rights...)
			if s := c.startDNS(t, all); e.name != "corefile" { // it has no state file, of which there are metrics
				exports(t, "coredns_", s.Metrics)
			}
		})
	}
}

// startDNS starts the rendered server, whose roles are already applied, and waits until it answers for its zones.
func (c *cluster) startDNS(t *testing.T, all []*unstructured.Unstructured) *corefile.Local {
	t.Helper()
	s := startCorefile(t, all, c.account(t, deployment(t, all, "dns")))
	kube.Eventually(t, func() error { return corefile.Ready(t.Context(), s.Probe) })
	for part, q := range map[string]dns.Question{
		"clusterset.local":         {Name: "clusterset.local.", Qtype: dns.TypeSOA},
		"svc.global":               {Name: "svc.global.", Qtype: dns.TypeSOA},
		"kubernetes cluster.local": {Name: "kubernetes.default.svc.cluster.local.", Qtype: dns.TypeA},
	} {
		if strings.Contains(s.Text, part) {
			kube.Eventually(t, func() error { // CoreDNS is ready a moment before it listens
				r, err := dns.Exchange(new(dns.Msg).SetQuestion(q.Name, q.Qtype), s.DNS)
				if err == nil && (r.Rcode != dns.RcodeSuccess || len(r.Answer) == 0) {
					err = fmt.Errorf("%s: %v", q.Name, r)
				}
				return err
			})
		}
	}
	return s
}

// startCorefile starts the rendered server on a node in zone-a of region-a.
func startCorefile(t *testing.T, all []*unstructured.Unstructured, kubeconfig string) *corefile.Local {
	t.Helper()
	text := ""
	for _, o := range only(all, "ConfigMap") {
		text += as[corev1.ConfigMap](t, o).Data["Corefile"]
	}
	for _, want := range []string{"health :8080", "ready :8181", "prometheus :9153"} { // the Deployment's ports and probes
		if !strings.Contains(text, want) {
			t.Errorf("the Corefile has no %q", want)
		}
	}
	s, err := corefile.Adapt(strings.ReplaceAll(text, "/var/lib/clusterset/", t.TempDir()+"/"), kubeconfig, corefile.Nowhere)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(s.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	node := map[string]string{"topology.kubernetes.io/zone": "zone-a", "topology.kubernetes.io/region": "region-a"}
	start(t, environment(t, deployment(t, all, "dns"), node), "coredns", "-conf", path)
	return s
}

// environment returns a container's environment as the kubelet would set it. From Kubernetes 1.35 on, pods have the labels of their node.
func environment(t *testing.T, d *appsv1.Deployment, labels map[string]string) (env []string) {
	t.Helper()
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom != nil {
			label := strings.TrimSuffix(strings.TrimPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata.labels['"), "']")
			if e.Value = labels[label]; e.Value == "" {
				t.Errorf("%s comes from %s", e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
		}
		env = append(env, e.Name+"="+e.Value)
	}
	return env
}
