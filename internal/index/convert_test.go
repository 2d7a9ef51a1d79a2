package index

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/cases"
)

// wantErrors expects one error for each string in want, which has the form "<path>: <part of the message>".
func wantErrors(t *testing.T, name string, errs field.ErrorList, want []string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Errorf("%s: errors %v, want %q", name, errs, want)
		return
	}
	for i, w := range want {
		path, message, _ := strings.Cut(w, ": ")
		if errs[i].Field != path || !strings.Contains(errs[i].Error(), message) {
			t.Errorf("%s: error %q, want %q", name, errs[i], w)
		}
	}
}

// converts compares what the index keeps of a kind's objects with the cases of a file.
func converts[Source, Kept any](t *testing.T, kind string, convert func(*Source) (*Kept, field.ErrorList)) {
	t.Helper()
	table := cases.Read(t, "testdata/cases/"+kind+".yaml")
	for _, c := range table.Cases {
		o, before := cases.Object[Source](t, table.Valid, c.Change), cases.Object[Source](t, table.Valid, c.Change)
		got, errs := convert(o)
		wantValue(t, c.Name, got, c.Text)
		wantErrors(t, c.Name, errs, c.Errors)
		if !reflect.DeepEqual(o, before) {
			t.Errorf("%s: the object, which an informer may own, was changed", c.Name)
		}
	}
}

func TestConversion(t *testing.T) {
	converts(t, "serviceimport", FromServiceImport)
	converts(t, "endpointslice", FromEndpointSlice)
	converts(t, "globalservice", FromGlobalService)
}

// wantValue compares an object's text with want. The text of nil is "".
func wantValue[T any](t *testing.T, name string, got *T, want string) {
	t.Helper()
	text := ""
	if got != nil {
		text = strings.Replace(fmt.Sprintf("%+v", *got), " Policy:<nil>", "", 1)
	}
	if text != want {
		t.Errorf("%s:\n got %s\nwant %s", name, text, want)
	}
}

// Rule A28 of docs/spec/answers.md.
func TestFromMemberCluster(t *testing.T) {
	tests := []struct {
		name  string
		phase clustersetv1alpha1.MemberClusterPhase
		want  topology.Phase
	}{
		{"never seen a heartbeat", "", topology.Ready},
		{"ready", clustersetv1alpha1.MemberReady, topology.Ready},
		{"suspect", clustersetv1alpha1.MemberSuspect, topology.Suspect},
		{"expired", clustersetv1alpha1.MemberExpired, topology.Expired},
		{"a phase of a newer hub", "Resting", topology.Ready},
	}
	for _, tt := range tests {
		for _, drain := range []bool{false, true} {
			o := &clustersetv1alpha1.MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "C1"},
				Spec:       clustersetv1alpha1.MemberClusterSpec{Zone: "z2", Zones: []string{"z3", "z1", "z2"}, Region: "r1", Drain: drain},
				Status:     clustersetv1alpha1.MemberClusterStatus{Phase: tt.phase},
			}
			got, errs := FromMemberCluster(o)
			want := &Cluster{"c1", topology.Member{Zones: []string{"z1", "z2", "z3"}, Region: "r1", Phase: tt.want, Drain: drain}, 0}
			if (len(errs) > 0) != (tt.phase == "Resting") || !want.equal(got) {
				t.Errorf("%s: %+v, %v, want %+v", tt.name, got, errs, want)
			}
		}
	}
	// The zones of its nodes count only if its spec has none.
	for _, spec := range []clustersetv1alpha1.MemberClusterSpec{{}, {Zone: "z1"}, {Zones: []string{"z1"}}} {
		want := []string{"z1"}
		if spec.Zone == "" && spec.Zones == nil {
			want = []string{"z3", "z4"}
		}
		got, errs := FromMemberCluster(&clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: spec, Status: clustersetv1alpha1.MemberClusterStatus{Zones: []string{"z4", "z3"}},
		})
		if len(errs) > 0 || !slices.Equal(got.Zones, want) {
			t.Errorf("spec %+v: %+v, %v, want the zones %v", spec, got, errs, want)
		}
	}
	for _, name := range []string{"", "a_b", "a.b.c", "-", strings.Repeat("a", 64)} {
		got, errs := FromMemberCluster(&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		wantValue(t, name, got, "")
		wantErrors(t, name, errs, []string{"metadata.name: must be a cluster name"})
	}
}

// An object's policy is in its annotations or its trafficDistribution. TestOneInvalidValueTakesNothingElseWithIt has invalid ones.
func TestPolicyIsRead(t *testing.T) {
	zoneRegion := []topology.Tier{topology.Zone, topology.Region}
	for _, tt := range []struct {
		name         string
		annotations  map[string]string
		distribution string
		// onImport and onGlobal are the policies that each object states. onGlobal equals onImport if there is no trafficDistribution.
		onImport, onGlobal topology.Policy
	}{
		{name: "nothing stated"},
		{
			name:        "all stated",
			annotations: map[string]string{api.AnnotationPrefer: "none", api.AnnotationBoundary: "region", api.AnnotationMinReady: "2"},
			onImport:    topology.Policy{Prefer: []topology.Tier{}, Boundary: topology.Region, MinReady: 2},
			onGlobal:    topology.Policy{Prefer: []topology.Tier{}, Boundary: topology.Region, MinReady: 2},
		},
		{name: "a trafficDistribution", distribution: "PreferSameZone", onImport: topology.Policy{Prefer: zoneRegion}},
		{
			name: "an annotation goes before a trafficDistribution", distribution: "PreferClose",
			annotations: map[string]string{api.AnnotationPrefer: "cluster"},
			onImport:    topology.Policy{Prefer: []topology.Tier{topology.Cluster}}, onGlobal: topology.Policy{Prefer: []topology.Tier{topology.Cluster}},
		},
	} {
		imp := &mcsv1beta1.ServiceImport{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", Annotations: tt.annotations},
			Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless},
		}
		if tt.distribution != "" {
			imp.Spec.TrafficDistribution = &tt.distribution
		}
		read, errs := FromServiceImport(imp)
		wantErrors(t, tt.name, errs, nil)
		if got := orZero(read.Policy); !got.Equal(tt.onImport) {
			t.Errorf("%s: a ServiceImport states %v, want %v", tt.name, got, tt.onImport)
		}
		global, errs := FromGlobalService(&fabedgev1alpha1.GlobalService{ObjectMeta: imp.ObjectMeta})
		wantErrors(t, tt.name, errs, nil)
		if got := orZero(global.Policy); !got.Equal(tt.onGlobal) {
			t.Errorf("%s: a GlobalService states %v, want %v", tt.name, got, tt.onGlobal)
		}
	}
}

func orZero(p *topology.Policy) topology.Policy {
	if p == nil {
		return topology.Policy{}
	}
	return *p
}
