package importer

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/records"
)

// A set moves to communities and back, with the permissions that the hub grants in each state. Imports that stay visible don't change,
// those that become invisible are deleted, and those that become visible are imported, although the permission to read them comes later.
func TestCommunities(t *testing.T) {
	w := newWorld(t)
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	w.onHub(records.Exported("shanghai", "shop", "far", "10.2.0.1", "10.12.0.5"), records.Exported("baoding", "shop", "near", "10.3.0.1", "10.13.0.5"),
		records.Exported("shanghai", "shop", "both", "10.2.0.2", "10.12.0.6"), records.Exported("baoding", "shop", "both", "10.3.0.2", "10.13.0.6"))
	run := w.start(Options{})
	w.imported("shop", "far", 1)
	w.imported("shop", "near", 1)
	w.imported("shop", "both", 2)
	for path := range run.hub.watched() {
		if strings.Contains(path, "/namespaces/") {
			t.Errorf("without communities, it watches %s", path)
		}
	}

	imports := func(name string) *mcsv1beta1.ServiceImport {
		imp := &mcsv1beta1.ServiceImport{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, imp); err != nil {
			t.Fatal(err)
		}
		return imp
	}
	was := imports("near")
	mayRead(w, "beijing", "baoding")
	mayRead(w, "", "") // no longer all records
	w.onHub(inCommunities("beijing", "default", "north"), inCommunities("baoding", "default", "north"), inCommunities("shanghai", "default", "south"))
	w.onHub(inCommunities("beijing", "north"), inCommunities("baoding", "north"), inCommunities("shanghai", "south"))
	w.gone("shop", "far")
	w.imported("shop", "both", 1)

	// New exports of visible clusters are imported, new exports of others are not.
	w.onHub(records.Exported("shanghai", "shop", "hidden", "10.2.0.3", "10.12.0.7"), records.Exported("baoding", "shop", "seen", "10.3.0.3", "10.13.0.7"))
	w.imported("shop", "seen", 1)
	w.gone("shop", "hidden")

	w.onHub(inCommunities("shanghai", "north", "south"))
	w.imported("shop", "seen", 1)
	mayRead(w, "shanghai")
	w.imported("shop", "far", 1)
	w.imported("shop", "hidden", 1)
	w.imported("shop", "both", 2)
	w.withdraw(records.Exported("shanghai", "shop", "hidden", "10.2.0.3", "10.12.0.7"))
	w.gone("shop", "hidden")

	w.hub.Apply(t, readFile(t, "testdata/rbac-hub.yaml"))
	w.onHub(inCommunities("beijing", "default", "north"), inCommunities("baoding", "default", "north"), inCommunities("shanghai", "default", "south"))
	w.onHub(inCommunities("beijing"), inCommunities("baoding"), inCommunities("shanghai"))
	w.onHub(records.Exported("shanghai", "shop", "again", "10.2.0.4", "10.12.0.8"))
	w.imported("shop", "again", 1)
	if is := imports("near"); is.UID != was.UID || is.ResourceVersion != was.ResourceVersion {
		t.Errorf("what stayed visible is at %s, was at %s", is.ResourceVersion, was.ResourceVersion)
	}
	for _, write := range run.local.written() {
		if strings.HasPrefix(write, "DELETE") && strings.HasSuffix(write, "/serviceimports/both") {
			t.Errorf("it wrote %s", write)
		}
	}
}

func inCommunities(cluster string, communities ...string) string {
	return strings.Replace(memberOf(cluster), "region: cn", fmt.Sprintf("region: cn, communities: [%s]", strings.Join(communities, ",")), 1)
}

// mayRead grants the importer permission to read records in these clusters' namespaces. If the cluster is "", it removes the permission to
// read all records instead.
func mayRead(w *world, clusters ...string) {
	w.onHub(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: peer}
rules: [{apiGroups: [clusterset.dev], resources: [exportedservices, exportedendpoints], verbs: [get, list, watch]}]`)
	if clusters[0] == "" {
		w.onHub(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: importer}
rules: [{apiGroups: [clusterset.dev], resources: [memberclusters], verbs: [get, list, watch]}]`)
		return
	}
	for _, cluster := range clusters {
		w.onHub(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: clusterset-member-%s, name: peers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: peer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: importer}]`, cluster))
	}
}
