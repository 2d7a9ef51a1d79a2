package clusterdns

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/page"
)

// The rules are of docs/spec/control-plane.md.

const address = "10.96.0.53"

var zones = []string{"clusterset.local", "svc.global"}

func right(server string) bool { return server == address }

// cluster has the objects of a text in YAML.
func cluster(t *testing.T, text string) *objects.Cluster {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithReturnManagedFields()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		b.WithObjects(o)
	}
	return &objects.Cluster{Client: b.Build(), What: "cluster"}
}

func places(t *testing.T, c *objects.Cluster) []*Place {
	t.Helper()
	dns, cache := Find(t.Context(), c, "")
	for _, p := range []*Place{&dns, &cache} {
		if p.Err != nil || p.Fixed != "" {
			t.Fatal(p.Err, p.Fixed)
		}
	}
	return []*Place{&dns, &cache}
}

// Of each kind of cluster DNS, with objects as they are there, testdata has what enable changes. What it then finds is as it should be, and disable
// leaves every object as it was (C86).
func TestKinds(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, untouched := cluster(t, string(content)), cluster(t, string(content))
			want := places(t, untouched)
			var all string
			for _, p := range places(t, c) {
				text, err := p.With(zones, address, right)
				if err != nil {
					t.Fatal(err)
				}
				if text == p.Text {
					continue
				}
				all += Difference(p.Edited, p.Text, text)
				write(t, p, c, text)
			}
			page.Fresh(t, strings.TrimSuffix(file, ".yaml")+".diff", all)

			for i, p := range places(t, c) {
				if text, err := p.With(zones, address, right); text != p.Text || err != nil {
					t.Errorf("enable once more: %v\n%s", err, Difference(p.Edited, p.Text, text))
				}
				if p.kind.is == "ConfigMap" {
					if way, err := p.Way("svc.global"); err != nil || way.Plugin != "forward" || way.Servers[0] != address {
						t.Errorf("%s: %+v, %v", p.Edited, way, err)
					}
					if moved, err := p.With(zones, "10.96.0.99", func(s string) bool { return s == "10.96.0.99" }); p.kind.runs != kubeDNS.runs &&
						(err != nil || moved != strings.ReplaceAll(p.Text, address, "10.96.0.99")) {
						t.Errorf("with another address: %v\n%s", err, moved)
					}
				}
				text, err := p.Without(zones, address)
				if err != nil || text != want[i].Text {
					t.Errorf("disable: %v\n%s", err, Difference(p.Edited, want[i].Text, text))
				}
				if text != p.Text {
					write(t, p, c, text)
				}
			}
			for i, p := range places(t, c) {
				if (p.object == nil) != (want[i].object == nil) {
					t.Fatalf("%s is there: %v", p.Edited, p.object != nil)
				}
				if p.object != nil && !equality.Semantic.DeepEqual(stripped(p.object), stripped(want[i].object)) {
					t.Errorf("it isn't what it was: %v", p.object)
				}
			}
		})
	}
}

func write(t *testing.T, p *Place, c client.Client, text string) {
	t.Helper()
	if err := p.Write(context.Background(), c, text); err != nil {
		t.Fatal(err)
	}
}

func stripped(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	return o.Object
}

// What is in the way is named by its line, before anything is written (C87).
func TestRefusals(t *testing.T) {
	const root = ".:53 {\n    forward . /etc/resolv.conf\n}\n"
	ours := "# clusterset: begin\nsvc.global:53 {\n    forward . 10.96.0.1\n}\n# clusterset: end\n"
	for corefile, want := range map[string]string{
		root + "clusterset.local:53 {\n    errors\n    forward . 192.0.2.1\n}\n":                                       "line 6 of kube-system/coredns is in the way of clusterset.local: forward 192.0.2.1",
		root + "corp svc.global {\n    errors\n}\n":                                                                    "line 4 of kube-system/coredns is in the way of svc.global",
		ours + root + "svc.global {\n    errors\n}\n":                                                                  "line 9 of kube-system/coredns is in the way of svc.global",
		".:53 {\n    forward svc.global 192.0.2.1\n    forward . 192.0.2.2\n}\n":                                       "line 2 of kube-system/coredns is in the way of svc.global: forward 192.0.2.1",
		".:53 {\n    kubernetes cluster.local {\n        pods insecure\n    }\n    multicluster clusterset.local\n}\n": "line 5 of kube-system/coredns is in the way of clusterset.local: multicluster",
		root + "corp {\n    errors\n":                                                                                  "kube-system/coredns: the block in line 4 isn't closed",
		root + "}\n":                                                                                                   "kube-system/coredns: line 4 closes a block that isn't open",
		root + "# clusterset: begin\ncorp {\n}\n":                                                                      `line 4 begins a block that no line "# clusterset: end" ends`,
		root + "global {\n forward . 192.0.2.1\n}\n":                                                                   "", // a stanza for a zone in it is narrower
		root + "svc.global clusterset.local {\n forward . 10.96.0.53\n}\n":                                             "", // right already
		root + "svc.global clusterset.local {\n clusterset\n}\n":                                                       "",
	} {
		p := Place{Key: "kube-system/coredns", Corefile: corefile, Text: corefile, Edited: "ConfigMap kube-system/coredns", kind: coreDNS}
		text, err := p.With(zones, address, right)
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v, want %s", corefile, err, want)
		}
		if err == nil && strings.Contains(corefile, "global clusterset") && text != corefile {
			t.Errorf("%s becomes %s", corefile, text)
		}
	}
	values := "extraConfig: {import: {parameters: /opt/coredns/*.conf}}\n"
	p := Place{Key: "kube-system/rke2-coredns-rke2-coredns", Corefile: root, Text: values, Edited: "HelmChartConfig kube-system/rke2-coredns", kind: rke2}
	if _, err := p.With(zones, address, right); err == nil || !strings.Contains(err.Error(), "has extraConfig already") {
		t.Error(err)
	}
	p.Text = "a: b\n c: d\n"
	if _, err := p.With(zones, address, right); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// What somebody else would write back isn't changed, and what to do instead is said (C87).
func TestFixed(t *testing.T) {
	const coredns = "apiVersion: v1\nkind: ConfigMap\ndata: {Corefile: \".:53 {\\n}\\n\"}\nmetadata: {namespace: kube-system, name: coredns, "
	for objects, want := range map[string]string{
		coredns + "managedFields: [{manager: eks, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:data': {'f:Corefile': {}}}}]}": "aws eks update-addon",
		coredns + "labels: {addonmanager.kubernetes.io/mode: Reconcile}}":                                                                              "the provider writes ConfigMap kube-system/coredns back",
		coredns + "labels: {app.kubernetes.io/managed-by: Helm}}":                                                                                      "in the chart's values",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: other}":                                                             "Cloud DNS",
	} {
		p, _ := Find(t.Context(), cluster(t, objects), "")
		if p.Err != nil {
			p.Fixed = p.Err.Error()
		}
		if !strings.Contains(p.Fixed, want) {
			t.Errorf("%s: %q, want %s", objects, p.Fixed, want)
		}
	}
}

// What somebody else has changed meanwhile isn't overwritten (C87).
func TestConflict(t *testing.T) {
	content, err := os.ReadFile("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster(t, string(content))
	first, second := places(t, c)[0], places(t, c)[0]
	write(t, first, c, first.Text+"# theirs\n")
	if err := second.Write(t.Context(), c, "ours"); !apierrors.IsConflict(err) {
		t.Error(err)
	}
}

// The defaults that OpenShift's API server adds to our server are no difference (C86).
func TestDefaultsOfServers(t *testing.T) {
	text := "- forwardPlugin:\n    policy: Random\n    upstreams:\n    - 10.96.0.53\n  name: clusterset\n  zones:\n  - clusterset.local\n  - svc.global\n"
	p := Place{Key: openShiftKey, Corefile: ".:5353 {\n}\n", Text: text, Edited: "DNS default", kind: openShift}
	if got, err := p.With(zones, address, right); err != nil || got != text {
		t.Errorf("%v\n%s", err, got)
	}
}
