package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/internal/join"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// storedDir has what earlier versions stored in a member and on its hub, and their answers from it.
const storedDir = "testdata/stored"

// TestStoredObjects checks that this version's CRDs accept the objects that earlier versions stored, and that this
// version's DNS server gives the same answers from them.
func TestStoredObjects(t *testing.T) {
	fleettest.Alone(t)
	versions, err := os.ReadDir(storedDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		t.Run(v.Name(), func(t *testing.T) {
			fleettest.SkipIfShort(t)
			if err := fleettest.Build(); err != nil {
				t.Fatal(err)
			}
			c := &fleettest.Cluster{TB: t, Cluster: &fleet.Cluster{Name: v.Name(), Dir: filepath.Join(t.TempDir(), "member")}}
			t.Cleanup(c.Stop)
			if err := c.Launch(t.Context(), kube.WithServiceCIDRs("10.100.0.0/16", "fd00:100::/112")); err != nil {
				t.Fatal(err)
			}
			for _, install := range []error{join.InstallHubCRDs(t.Context(), c.Plane.Config()), join.InstallMemberCRDs(t.Context(), c.Plane.Config())} {
				if install != nil {
					t.Fatal(install)
				}
			}
			for _, file := range []string{"namespaces.yaml", "hub.yaml", "member.yaml"} {
				c.Apply(string(readStored(t, v.Name(), file)))
			}
			c.Apply(string(fleet.Rights("dns")))
			for object := range strings.SplitSeq(string(readStored(t, v.Name(), "member.yaml")), "---\n") {
				if strings.Contains(object, "\nstatus:") {
					c.Plane.ApplyStatus(t, []byte(object))
				}
			}
			server := fleettest.NewDNS(fleet.NewDNS(c.Cluster, fleettest.Binaries(), fleet.Location{Cluster: "xicheng", Zone: "beijing", Region: "north"}, filepath.Join(t.TempDir(), "dns"))).For(t)
			t.Cleanup(server.Kill)
			server.Start()
			asked := 0
			for line := range strings.Lines(string(readStored(t, v.Name(), "answers.txt"))) {
				name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				qtype, want, _ := strings.Cut(rest, " ")
				kube.Eventually(t, fleettest.Soon, func() error {
					got, err := askOnce(context.Background(), server.Addr(), question{name, qtype}, probePatience)
					if err == nil && got != want {
						err = fmt.Errorf("dig %s %s: got %s, want %s", name, qtype, got, want)
					}
					return err
				})
				asked++
			}
			if asked == 0 {
				t.Error("there are no answers to compare with")
			}
		})
	}
}

func readStored(t *testing.T, version, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(storedDir, version, file))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// store writes the stored objects of the first member and of the hub into testdata.
func (c *run) store(version string) {
	c.Helper()
	dir := filepath.Join(storedDir, version)
	c.must(os.MkdirAll(dir, 0o755)) //nolint:gosec // testdata
	write := func(file, content string) {
		c.Helper()
		c.must(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644)) //nolint:gosec // testdata
	}
	xicheng := c.Members[0]
	var namespaces []string
	for _, ns := range slices.Concat(c.Script.Namespaces, []string{"clusterset-member-xicheng", "clusterset-member-shijiazhuang", "clusterset-member-minhang"}) {
		namespaces = append(namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: "+ns+"}}")
	}
	write("namespaces.yaml", strings.Join(namespaces, "\n---\n")+"\n")
	gvk := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"}
	}
	write("hub.yaml", c.dump(&c.Hub.Cluster, gvk("clusterset.dev", "v1alpha1", "ExportedService"), gvk("clusterset.dev", "v1alpha1", "ExportedEndpoints")))
	write("member.yaml", c.dump(&xicheng.Cluster, gvk("clusterset.dev", "v1alpha1", "MemberCluster"), gvk("multicluster.x-k8s.io", "v1beta1", "ServiceImport"),
		gvk("dns.fabedge.io", "v1alpha1", "GlobalService"), gvk("discovery.k8s.io", "v1", "EndpointSlice")))
	var lines []string
	all := c.phases[ready][0]
	for _, q := range slices.SortedFunc(maps.Keys(all), func(a, b question) int { return strings.Compare(a.String(), b.String()) }) {
		lines = append(lines, q.String()+" "+all[q])
	}
	write("answers.txt", strings.Join(lines, "\n")+"\n")
}

// dump returns the importer's objects in a member, or all objects on the hub, without the fields that an API server adds.
func (c *run) dump(of *fleettest.Cluster, kinds ...schema.GroupVersionKind) string {
	c.Helper()
	var documents []string
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		var opts []client.ListOption
		if of.Dir != c.Hub.Dir {
			opts = append(opts, client.MatchingLabels{"clusterset.dev/managed-by": "importer"})
		}
		c.must(of.List(list, opts...))
		c.must(meta.EachListItem(list, func(o runtime.Object) error {
			u := o.(*unstructured.Unstructured)
			for _, added := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "selfLink"} {
				unstructured.RemoveNestedField(u.Object, "metadata", added)
			}
			content, err := yaml.Marshal(u.Object)
			documents = append(documents, string(content))
			return err
		}))
	}
	return strings.Join(documents, "---\n")
}
