package v1alpha1

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMemberClusterValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		member MemberCluster
		errs   []string
	}{
		{
			"all of it",
			MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "name.context"},
				Spec:       MemberClusterSpec{Zone: "北京", Zones: []string{"北京", "天津"}, Region: "north", Drain: true, Weight: ptr(int32(1)), CIDRs: []string{"10.1.0.0/16", "fd00:1::/48"}, Communities: []string{"payments", "edge-asia", "7"}},
				Status:     MemberClusterStatus{Phase: MemberSuspect},
			},
			nil,
		},
		{"the least", MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil},
		{
			"everything wrong",
			MemberCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "a_b"},
				Spec:       MemberClusterSpec{Zone: " ", Zones: []string{"a", "", "b "}, Region: "\t", Weight: ptr(int32(0)), CIDRs: []string{"10.1.0.1/16", "10.1.0.0"}, Network: "a.b", ExternalCIDRs: []string{"192.0.2.1/24"}, Communities: []string{"a", "A", "", "a.b", "*", "a", "-a", strings.Repeat("a", 64), "a\x1b[31m"}},
				Status:     MemberClusterStatus{Phase: "Fine"},
			},
			[]string{
				"metadata.name: Invalid value: \"a_b\"",
				"spec.zone: Invalid value",
				"spec.zones[1]: Required value: must be the name of a zone; leave it out where it is unknown",
				"spec.zones[2]: Invalid value: \"b \": must be the name of a zone or region",
				"spec.region: Invalid value",
				"spec.weight: Invalid value: 0: must be 1 to 100",
				"spec.cidrs[0]: Invalid value: \"10.1.0.1/16\": must be a network without host bits",
				"spec.cidrs[1]: Invalid value: \"10.1.0.0\"",
				"spec.network: Invalid value: \"a.b\": must be a DNS label",
				"spec.externalCIDRs[0]: Invalid value: \"192.0.2.1/24\": must be a network without host bits",
				"spec.communities[1]: Invalid value: \"A\": must be a DNS label",
				"spec.communities[2]: Invalid value: \"\": must be a DNS label",
				"spec.communities[3]: Invalid value: \"a.b\": must be a DNS label",
				"spec.communities[4]: Invalid value: \"*\": must be a DNS label",
				"spec.communities[5]: Duplicate value: \"a\"",
				"spec.communities[6]: Invalid value: \"-a\": must be a DNS label",
				"spec.communities[7]: Invalid value: \"aaaa",
				"spec.communities[8]: Invalid value: \"a",
				"status.phase: Unsupported value: \"Fine\": supported values: \"Ready\", \"Suspect\", \"Expired\"",
			},
		},
		{
			"too many communities, and some like paths or not ASCII",
			MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: MemberClusterSpec{Communities: slices.Concat([]string{"../payments", "支付", "a/b"}, labels(MaxCommunities-2))}},
			[]string{"spec.communities: Too many: 65: must have at most 64 items", "spec.communities[0]: Invalid value: \"../payments\"", "spec.communities[1]: Invalid value", "spec.communities[2]: Invalid value: \"a/b\""},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { compare(t, tc.member.Validate(), tc.errs) })
	}
}

// Rule C48 of docs/spec/control-plane.md: whatever is invalid, everything else stays as it is.
func TestOneInvalidValueTakesNothingElseWithIt(t *testing.T) {
	whole := MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"clusterset.dev/joined": "2026-01-01T00:00:00Z"}},
		Spec: MemberClusterSpec{
			Zone: "z", Zones: []string{"y", "x"}, Region: "r", Drain: true, Weight: ptr(int32(7)), CIDRs: []string{"10.1.0.0/16", "fd00:1::/48"},
			Network: "edge", ExternalCIDRs: []string{"192.0.2.0/24", "2001:db8::/64"}, Communities: []string{"payments", "edge"},
		},
		Status: MemberClusterStatus{Phase: MemberExpired, LastHeartbeatTime: &metav1.Time{}, AgentVersion: "v1", Zones: []string{"z"}, ExportedServices: ptr(int32(3)), Conditions: []metav1.Condition{{Type: "Ready"}}},
	}
	if out, errs := whole.Sanitized(); len(errs) > 0 || out != &whole {
		t.Fatalf("%v", errs)
	}
	type change struct {
		name      string
		spoil, to func(*MemberCluster) // to makes whole what is left
	}
	nothing := func(*MemberCluster) {}
	changes := map[string][]change{
		"Zone":   {{"blank", func(m *MemberCluster) { m.Spec.Zone = " z" }, func(m *MemberCluster) { m.Spec.Zone = "" }}},
		"Region": {{"control character", func(m *MemberCluster) { m.Spec.Region = "a\tb" }, func(m *MemberCluster) { m.Spec.Region = "" }}},
		"Zones": {
			{"one", func(m *MemberCluster) { m.Spec.Zones = []string{"y", "", "x"} }, nothing},
			{"too many", func(m *MemberCluster) { m.Spec.Zones = labels(MaxZones + 1) }, func(m *MemberCluster) { m.Spec.Zones = labels(MaxZones) }},
		},
		"Weight": {{"zero", func(m *MemberCluster) { m.Spec.Weight = ptr(int32(0)) }, func(m *MemberCluster) { m.Spec.Weight = nil }}},
		"CIDRs": {
			{"host bits", func(m *MemberCluster) { m.Spec.CIDRs = []string{"10.1.0.1/16", "10.1.0.0/16", "fd00:1::2/48"} }, nothing},
			{"one", func(m *MemberCluster) { m.Spec.CIDRs = []string{"10.1.0.0/16", "10.1.0.0/33", "fd00:1::/48"} }, nothing},
			{
				"all, which must not mean any network", func(m *MemberCluster) { m.Spec.CIDRs = []string{"10.1.0.0"} },
				func(m *MemberCluster) { m.Spec.CIDRs = []string{"10.1.0.0"} },
			},
		},
		"Network": {{
			"no label, which must not mean the network of those that name none", func(m *MemberCluster) { m.Spec.Network = "Edge" },
			func(m *MemberCluster) { m.Spec.Network = "Edge" },
		}},
		"ExternalCIDRs": {
			{"host bits", func(m *MemberCluster) {
				m.Spec.ExternalCIDRs = []string{"192.0.2.1/24", "192.0.2.0/24", "2001:db8::2/64"}
			}, nothing},
			{
				"all, which must mean none", func(m *MemberCluster) { m.Spec.ExternalCIDRs = []string{"192.0.2.1"} },
				func(m *MemberCluster) { m.Spec.ExternalCIDRs = []string{"192.0.2.1"} },
			},
		},
		"Communities": {
			{"one", func(m *MemberCluster) { m.Spec.Communities = []string{"payments", "A", "edge", "edge"} }, nothing},
			{
				"all, which must not mean the default", func(m *MemberCluster) { m.Spec.Communities = []string{"A"} },
				func(m *MemberCluster) { m.Spec.Communities = []string{"A"} },
			},
		},
		"Drain": nil, // true and false
		"Phase": {{"unknown", func(m *MemberCluster) { m.Status.Phase = "Fine" }, func(m *MemberCluster) { m.Status.Phase = "" }}},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[MemberClusterSpec]()) {
		if _, known := changes[field.Name]; !known {
			t.Errorf("say what an invalid %s takes with it", field.Name)
		}
	}
	for field, all := range changes {
		for _, c := range all {
			in, want := whole.DeepCopy(), whole.DeepCopy()
			c.spoil(in)
			c.to(want)
			was := in.DeepCopy()
			out, errs := in.Sanitized()
			if len(errs) == 0 || !reflect.DeepEqual(out, want) {
				t.Errorf("%s, %s: %v\n%+v, want\n%+v", field, c.name, errs, out, want)
			}
			if !reflect.DeepEqual(in, was) {
				t.Errorf("%s, %s: the object itself was changed, which may belong to a cache", field, c.name)
			}
		}
	}
}

// labels returns n DNS labels.
func labels(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("l%02d", i))
	}
	return all
}
