package v1alpha1

import (
	"fmt"
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
				Spec:       MemberClusterSpec{Zone: " ", Zones: []string{"a", "", "b "}, Region: "\t", Weight: ptr(int32(0)), CIDRs: []string{"10.1.0.1/16", "10.1.0.0"}, Communities: []string{"a", "A", "", "a.b", "*", "a", "-a", strings.Repeat("a", 64), "a\x1b[31m"}},
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

// labels returns n DNS labels.
func labels(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("l%02d", i))
	}
	return all
}
