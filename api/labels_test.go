package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestClusterOfNamespaceTakesOnlyMembersNamespaces(t *testing.T) {
	longest := strings.Repeat("a", MaxMemberName)
	for _, tc := range []struct {
		namespace, cluster string
		ok                 bool
	}{
		{"clusterset-member-beijing", "beijing", true},
		{"clusterset-member-edge-7", "edge-7", true},
		{"clusterset-member-" + longest, longest, true},
		{"clusterset-member-" + longest + "a", "", false},
		{"clusterset-member-", "", false},
		{"clusterset-member--x", "", false},
		{"clusterset-member-a.b", "", false},
		{"clusterset-member-Beijing", "", false},
		{"clusterset-system", "", false},
		{"my-clusterset-member-x", "", false},
		{"default", "", false},
		{"", "", false},
	} {
		cluster, ok := ClusterOfNamespace(tc.namespace)
		if cluster != tc.cluster || ok != tc.ok {
			t.Errorf("ClusterOfNamespace(%q) = %q, %t; want %q, %t", tc.namespace, cluster, ok, tc.cluster, tc.ok)
		}
		if ok && MemberNamespace(cluster) != tc.namespace {
			t.Errorf("MemberNamespace(%q) = %q; want %q", cluster, MemberNamespace(cluster), tc.namespace)
		}
	}
	if errs := validation.IsDNS1123Label(MemberNamespace(longest)); len(errs) > 0 {
		t.Errorf("the longest member name makes a bad namespace: %v", errs)
	}
}

func TestIsGlobalByLabelOrAnnotation(t *testing.T) {
	yes, no := map[string]string{KeyGlobalService: "true"}, map[string]string{KeyGlobalService: "false"}
	for _, tc := range []struct {
		name                string
		labels, annotations map[string]string
		want, local         bool
	}{
		{"neither", nil, nil, false, false},
		{"label", yes, nil, true, false},
		{"annotation", nil, yes, true, false},
		{"annotation against the label", no, yes, true, false},
		{"label against the annotation", yes, no, true, false},
		{"label false", no, nil, false, true},
		{"annotation false", nil, no, false, true},
		{"both false", no, no, false, true},
		{"other spelling", map[string]string{KeyGlobalService: "True"}, nil, false, true},
		{"false in another spelling", nil, map[string]string{KeyGlobalService: "False"}, false, true},
		{"an empty label", map[string]string{KeyGlobalService: ""}, nil, false, true},
		{"no", nil, map[string]string{KeyGlobalService: "no"}, false, true},
		{"an annotation against an unreadable label", map[string]string{KeyGlobalService: "no"}, yes, true, false},
	} {
		if got := IsGlobal(tc.labels, tc.annotations); got != tc.want {
			t.Errorf("%s: %t; want %t", tc.name, got, tc.want)
		}
		if got := KeepsLocal(tc.labels, tc.annotations); got != tc.local {
			t.Errorf("%s: kept local is %t; want %t", tc.name, got, tc.local)
		}
	}
}

func TestExportedServiceNameCanBeTakenApart(t *testing.T) {
	name := ExportedServiceName("shop", "web")
	if name != "web.shop" {
		t.Errorf("name %q; want web.shop", name)
	}
	if namespace, service, ok := ParseExportedServiceName(name); namespace != "shop" || service != "web" || !ok {
		t.Errorf("parsed %q, %q, %t", namespace, service, ok)
	}
	for _, bad := range []string{"", "web", "web.", ".shop", "web.shop.x", "Web.shop"} {
		if _, _, ok := ParseExportedServiceName(bad); ok {
			t.Errorf("%q was taken for an ExportedService's name", bad)
		}
	}
}

func TestMadeNamesAreValidAndLastForever(t *testing.T) {
	long := strings.Repeat("s", 63)
	for _, name := range []string{
		ExportedServiceName(long, long),
		ExportedEndpointsName(long, long, strings.Repeat("x", 253), 1000),
		HeartbeatLease, HubSecret, ClusterProperty, ClusterSetProperty,
	} {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if errs := validation.IsDNS1035Label(DerivedServiceName(long, long)); len(errs) > 0 {
		t.Errorf("derived Service: %v", errs)
	}
	// These names exist in clusters. Another hash would give every ServiceImport a new ClusterSetIP on upgrade.
	if got, want := DerivedServiceName("shop", "web"), "derived-97375646b1deb3d2"; got != want {
		t.Errorf("DerivedServiceName = %q; want %q", got, want)
	}
	if got, want := ExportedEndpointsName("shop", "web", "web-abc", 0), "web.shop.a9423c4f462b3c58-0"; got != want {
		t.Errorf("ExportedEndpointsName = %q; want %q", got, want)
	}
}

func TestDerivedServiceNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, key := range [][2]string{{"a", "b"}, {"b", "a"}, {"ab", "c"}, {"a", "bc"}} {
		name := DerivedServiceName(key[0], key[1])
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %s share the name %s", key, other, name)
		}
		seen[name] = key[0] + "/" + key[1]
	}
}

func TestKeysAreValidLabelKeys(t *testing.T) {
	for _, key := range []string{
		LabelManagedBy, LabelCluster, LabelExportedNamespace, LabelExportedName,
		AnnotationDerivedService, KeyGlobalService,
	} {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			t.Errorf("%s: %v", key, errs)
		}
		if !IsReservedKey(key) {
			t.Errorf("%s could be exported, and so forged", key)
		}
	}
	for _, value := range []string{ManagedByImporter, ManagedByExporter, ManagedByJoin, EndpointSliceManagedBy} {
		if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
			t.Errorf("%s: %v", value, errs)
		}
	}
}
