package api

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A label is one for Kubernetes, too.
func TestCheckLabelIsKubernetes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // for labels
	const bytes = "aaazz09--A._ \n\x00é"
	for range 20_000 {
		label := make([]byte, random.IntN(4)+[]int{0, 60}[random.IntN(2)])
		for i := range label {
			label[i] = 'a'
			if random.IntN(1+len(label)/4) == 0 {
				label[i] = bytes[random.IntN(len(bytes))]
			}
		}
		if err, want := CheckLabel(string(label)), validation.IsDNS1123Label(string(label)); (err == nil) != (len(want) == 0) {
			t.Errorf("%q: %v, Kubernetes: %v", label, err, want)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"10.1.2.3", "10.1.2.3"},
		{"240.1.2.3", "240.1.2.3"},
		{"100.100.100.200", "100.100.100.200"}, // may be a pod's; see clouds
		{"fd00::1", "fd00::1"},
		{"FD00:0:0::1", "fd00::1"},
		{"::ffff:10.1.2.3", "10.1.2.3"},
	} {
		got, err := ParseAddress(tc.in)
		if err != nil || got != netip.MustParseAddr(tc.want) {
			t.Errorf("ParseAddress(%q) = %v, %v; want %s", tc.in, got, err, tc.want)
		}
	}
	for in, why := range map[string]string{
		"":                 "must be an IPv4 or IPv6 address",
		"web.example":      "must be an IPv4 or IPv6 address",
		"10.1.2":           "must be an IPv4 or IPv6 address",
		"010.1.2.3":        "must be an IPv4 or IPv6 address",
		"10.1.2.3/32":      "must be an IPv4 or IPv6 address",
		"10.1.2.3\n":       "must be an IPv4 or IPv6 address",
		"fe80::1%eth0":     "IPv6 zone",
		"fd00::1%eth0":     "IPv6 zone",
		"0.0.0.0":          "unspecified",
		"::":               "unspecified",
		"127.0.0.1":        "loopback",
		"127.8.9.1":        "loopback",
		"::1":              "loopback",
		"::ffff:127.0.0.1": "loopback",
		"169.254.169.254":  "link-local",
		"fe80::1":          "link-local",
		"224.0.0.251":      "multicast",
		"ff0e::1":          "multicast",
		"255.255.255.255":  "broadcast",
		"168.63.129.16":    "metadata",
		"fd00:ec2::254":    "metadata",
		"fd00:ec2:0::23":   "metadata",
		"fd20:ce::254":     "metadata",
	} {
		if got, err := ParseAddress(in); err == nil {
			t.Errorf("ParseAddress(%q) = %v; want an error", in, got)
		} else if !strings.Contains(err.Error(), why) {
			t.Errorf("ParseAddress(%q): %q doesn't say %q", in, err, why)
		}
	}
}

func TestNames(t *testing.T) {
	label := strings.Repeat("a", 63)
	for _, tc := range []struct {
		in                     string
		label, cluster, member bool
	}{
		{"beijing", true, true, true},
		{"7", true, true, true},
		{"edge-7", true, true, true},
		{label[:MaxMemberName], true, true, true},
		{label[:MaxMemberName+1], true, true, false},
		{label, true, true, false},
		{label + "a", false, false, false},
		{"name.context", false, true, false},
		{label[:31] + "." + label[:31], false, true, false},
		{label[:32] + "." + label[:31], false, false, false},
		{"a.b.c", false, false, false},
		{"a.", false, false, false},
		{".b", false, false, false},
		{"Beijing", false, false, false},
		{"bei_jing", false, false, false},
		{"-a", false, false, false},
		{"a-", false, false, false},
		{"*", false, false, false},
		{"", false, false, false},
	} {
		for what, c := range map[string]struct {
			check func(string) error
			want  bool
		}{
			"CheckLabel":       {CheckLabel, tc.label},
			"CheckClusterName": {CheckClusterName, tc.cluster},
			"CheckMemberName":  {CheckMemberName, tc.member},
		} {
			if err := c.check(tc.in); (err == nil) != c.want {
				t.Errorf("%s(%q) = %v; want ok %t", what, tc.in, err, c.want)
			}
		}
	}
}

func TestCheckLocation(t *testing.T) {
	for _, ok := range []string{"", "beijing", "us-east-1a", "North China", "华北", strings.Repeat("北", MaxLocation)} {
		if err := CheckLocation(ok); err != nil {
			t.Errorf("CheckLocation(%q): %v", ok, err)
		}
	}
	for _, bad := range []string{" a", "a ", " ", "a\nb", "a\x00b", "\xff", strings.Repeat("a", MaxLocation+1)} {
		if CheckLocation(bad) == nil {
			t.Errorf("CheckLocation(%q) found nothing", bad)
		}
	}
}

func TestReservedKeys(t *testing.T) {
	for key, want := range map[string]bool{
		"clusterset.dev/managed-by":                        true,
		"sub.clusterset.dev/x":                             true,
		"kubernetes.io/service-name":                       true,
		"service.kubernetes.io/service-proxy-name":         true,
		"service.kubernetes.io/headless":                   true,
		"endpointslice.kubernetes.io/managed-by":           true,
		"multicluster.kubernetes.io/source-cluster":        true,
		"kubectl.kubernetes.io/last-applied-configuration": true,
		"app.kubernetes.io/name":                           false,
		"helm.sh/chart":                                    false,
		"example.com/team":                                 false,
		"notclusterset.dev/x":                              false,
		"team":                                             false,
	} {
		if got := IsReservedKey(key); got != want {
			t.Errorf("IsReservedKey(%q) = %t; want %t", key, got, want)
		}
	}
}
