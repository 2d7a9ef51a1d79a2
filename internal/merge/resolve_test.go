package merge_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// Rule C10 of docs/spec/control-plane.md.
func TestTheWinner(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []*clustersetv1alpha1.ExportedService
		want    string
	}{
		{"is the oldest export", []*clustersetv1alpha1.ExportedService{record("a", 9), record("b", 3), record("c", 5)}, "b"},
		{"is not the majority", []*clustersetv1alpha1.ExportedService{record("a", 9), record("b", 9), record("c", 5, headless)}, "c"},
		{"of equal ages has the lower name", []*clustersetv1alpha1.ExportedService{record("b", 3), record("a", 3), record("c", 5)}, "a"},
		{"is older by seconds, not by what JSON drops", []*clustersetv1alpha1.ExportedService{
			record("a", 3, func(s *clustersetv1alpha1.ExportedServiceSpec) {
				s.ExportedAt = metav1.NewTime(s.ExportedAt.Add(900_000_000))
			}),
			record("b", 3),
		}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := resolve(tc.records...).Winner; got != tc.want {
				t.Errorf("winner is %q, want %q", got, tc.want)
			}
		})
	}
}

// If a member claims that its export dates from 1970, the export counts as no older than the cluster's membership. Rule
// C11 of docs/spec/control-plane.md.
func TestNoExportIsOlderThanItsClusterIsMember(t *testing.T) {
	joined := func(seconds map[string]int) merge.Joined {
		return merge.JoinedBy(func(cluster string) *clustersetv1alpha1.MemberCluster {
			at, ok := seconds[cluster]
			if !ok {
				return nil
			}
			mc := &clustersetv1alpha1.MemberCluster{}
			mc.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(at) * time.Second))
			return mc
		})
	}
	claims1970 := record("a", 0, headless, func(s *clustersetv1alpha1.ExportedServiceSpec) { s.ExportedAt = metav1.Unix(0, 0) })
	exports, _ := merge.Exports(compact(claims1970, record("b", 5)), joined(map[string]int{"a": 9, "b": 1}))
	r := merge.Resolve(exports)
	if c := r.ConflictCondition(); r.Winner != "b" || r.Type != mcsv1beta1.ClusterSetIP || c.Reason != "TypeConflict" ||
		!strings.Contains(c.Message, "type: a (1 of 2 clusters) disagrees with b") {
		t.Errorf("%s wins, %s, %s", r.Winner, r.Type, c.Message)
	}

	// If the hub has no MemberCluster for a cluster, its record counts as no older than it is on the hub.
	claims1970.CreationTimestamp = metav1.NewTime(epoch.Add(9 * time.Second))
	exports, _ = merge.Exports(compact(claims1970, record("b", 5)), joined(map[string]int{"b": 1}))
	if r := merge.Resolve(exports); r.Winner != "b" {
		t.Errorf("%s wins", r.Winner)
	}

	// After the hub lost its data, the cluster joined again and its MemberCluster states when it first joined.
	again := &clustersetv1alpha1.MemberCluster{}
	again.CreationTimestamp, again.Annotations = metav1.NewTime(epoch.Add(99*time.Second)), map[string]string{api.AnnotationJoined: "2026-01-01T00:00:01Z"}
	if at := again.JoinedAt(); !at.Equal(epoch.Add(time.Second)) {
		t.Errorf("joined at %s", at)
	}
}

// Rule C12 of docs/spec/control-plane.md.
func TestTheOldestWinsWhole(t *testing.T) {
	local, prefer := corev1.ServiceInternalTrafficPolicyLocal, "PreferClose"
	oldest := record("z", 0, headless, affinity(corev1.ServiceAffinityClientIP, 60), func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.InternalTrafficPolicy, s.TrafficDistribution = &local, &prefer
		s.ExportedLabels = map[string]string{"team": "red"}
		s.ExportedAnnotations = map[string]string{"note": "old"}
	})
	r := resolve(record("a", 1, labels("team", "blue", "more", "x")), oldest, record("b", 2, annotations("note", "new")))
	if r.Type != mcsv1beta1.Headless || r.SessionAffinity != corev1.ServiceAffinityClientIP ||
		*r.SessionAffinityConfig.ClientIP.TimeoutSeconds != 60 || *r.InternalTrafficPolicy != local ||
		*r.TrafficDistribution != prefer {
		t.Errorf("not the winner's: %+v", r)
	}
	if want := map[string]string{"team": "red"}; !equality.Semantic.DeepEqual(r.Labels, want) {
		t.Errorf("labels are %v, want %v", r.Labels, want)
	}
	if want := map[string]string{"note": "old"}; !equality.Semantic.DeepEqual(r.Annotations, want) {
		t.Errorf("annotations are %v, want %v", r.Annotations, want)
	}
	c := r.ConflictCondition()
	want := "AnnotationsConflict,InternalTrafficPolicyConflict,LabelsConflict,SessionAffinityConflict," +
		"TrafficDistributionConflict,TypeConflict"
	if c.Type != "Conflict" || c.Status != metav1.ConditionTrue || c.Reason != want {
		t.Errorf("condition is %s=%s %s, want reason %s", c.Type, c.Status, c.Reason, want)
	}
}

func policy(prefer, boundary string, minReady int32) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) {
		s.Policy = &clustersetv1alpha1.ServicePolicy{Prefer: prefer, Boundary: boundary, MinReady: minReady}
	}
}

func distribution(text string) func(*clustersetv1alpha1.ExportedServiceSpec) {
	return func(s *clustersetv1alpha1.ExportedServiceSpec) { s.TrafficDistribution = &text }
}

func TestPolicy(t *testing.T) {
	zoneRegion := []topology.Tier{topology.Zone, topology.Region}
	for _, tc := range []struct {
		name    string
		records []*clustersetv1alpha1.ExportedService
		want    topology.Policy
		reason  string
		message string
	}{
		{"that nobody states", []*clustersetv1alpha1.ExportedService{record("a", 1), record("b", 2)}, topology.Policy{}, "NoConflicts", ""},
		{
			"of the oldest wins whole",
			[]*clustersetv1alpha1.ExportedService{record("a", 2, policy("none", "region", 3)), record("b", 1, policy("cluster zone", "", 0))},
			topology.Policy{Prefer: []topology.Tier{topology.Cluster, topology.Zone}},
			"PolicyConflict",
			"policy: a (1 of 2 clusters) disagrees with b, whose export is the oldest (2026-01-01T00:00:01Z); " +
				"b has prefer cluster zone, a has prefer none, boundary region, min-ready 3",
		},
		{
			"of a younger export doesn't fill in",
			[]*clustersetv1alpha1.ExportedService{record("a", 1), record("b", 2, policy("", "zone", 0))},
			topology.Policy{},
			"PolicyConflict", "a has nothing stated, b has boundary zone",
		},
		{
			"that all state alike",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, policy("none", "zone", 2)), record("b", 2, policy("none", "zone", 2))},
			topology.Policy{Prefer: []topology.Tier{}, Boundary: topology.Zone, MinReady: 2},
			"NoConflicts", "",
		},
		{
			"may come as a trafficDistribution",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, distribution("PreferSameNode"), policy("", "", 2))},
			topology.Policy{Prefer: zoneRegion, MinReady: 2},
			"NoConflicts", "",
		},
		{
			"that is stated goes before a trafficDistribution",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, distribution("PreferClose"), policy("none", "", 0))},
			topology.Policy{Prefer: []topology.Tier{}},
			"NoConflicts", "",
		},
		{
			"of trafficDistributions that differ is one conflict, not two",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, distribution("PreferClose")), record("b", 2)},
			topology.Policy{Prefer: zoneRegion},
			"TrafficDistributionConflict", "",
		},
		{
			"of a trafficDistribution under its former name and its new one is the same",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, distribution("PreferClose")), record("b", 2, distribution("PreferSameZone"))},
			topology.Policy{Prefer: zoneRegion},
			"NoConflicts", "",
		},
		{
			"of garbage is what is left of it, without a conflict about the rest",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, policy("near", "planet", -1)), record("b", 2)},
			topology.Policy{},
			"NoConflicts", "",
		},
		{
			"of min-ready 1 says nothing new",
			[]*clustersetv1alpha1.ExportedService{record("a", 1), record("b", 2, policy("", "", 1))},
			topology.Policy{},
			"NoConflicts", "",
		},
		{
			"in other words is the same",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, policy(" zone  region", "", 2)), record("b", 2, policy("zone region", "x", 2))},
			topology.Policy{Prefer: zoneRegion, MinReady: 2},
			"NoConflicts", "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := resolve(tc.records...)
			c := r.ConflictCondition()
			if !r.Policy.Equal(tc.want) || c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) {
				t.Errorf("got %+v, %s: %s", r.Policy, c.Reason, c.Message)
			}
		})
	}
}

// Rules C13 and C14 of docs/spec/control-plane.md.
func TestPorts(t *testing.T) {
	for _, tc := range []struct {
		name, exports, want string // an export is its cluster, its age and its ports
		conflict            bool
	}{
		{"that agree", "a 1 http:80; b 2 http:80/TCP", "http:80/TCP=a+b", false},
		{"in another order agree", "a 1 http:80 dns:53/UDP; b 2 dns:53/UDP http:80", "http:80/TCP=a+b dns:53/UDP=a+b", false},
		{"are united, the winner's first", "a 2 admin:90 http:80; b 1 http:80 metrics:9090", "http:80/TCP=a+b metrics:9090/TCP=b admin:90/TCP=a", true},
		{"of one name keep the winner's number, and only who has it gets traffic", "a 1 http:80; b 2 http:8080; c 3 http:80", "http:80/TCP=a+c", true},
		{"of one name differ in protocol", "a 1 dns:53; b 2 dns:53/UDP", "dns:53/TCP=a", true},
		{"of one number keep the winner's name", "a 1 http:80; b 2 web:80 extra:81", "http:80/TCP=a extra:81/TCP=b", true},
		{"of one number and two protocols are two", "a 1 dns-tcp:53; b 2 dns-udp:53/UDP", "dns-tcp:53/TCP=a dns-udp:53/UDP=b", true},
		{"of losers lose to the older loser", "a 1 http:80; c 2 x:1; b 3 x:2", "http:80/TCP=a x:1/TCP=c", true},
		{"without a name get one", "a 1 :80; b 2 :80", "tcp-80:80/TCP=a+b", false},
		{"without a name have the same among others", "a 1 :80; b 2 metrics:9090", "tcp-80:80/TCP=a metrics:9090/TCP=b", true},
		{"without a name keep theirs when a younger export claims it", "a 1 :80; b 2 tcp-80:81 extra:82", "tcp-80:80/TCP=a extra:82/TCP=b", true},
		{"without a name don't take an older one's", "a 2 :80; b 1 tcp-80:81", "tcp-80:81/TCP=b tcp-80-2:80/TCP=a", true},
		{"without a name don't take an older one's second", "a 2 :80; b 1 tcp-80:81 tcp-80-2:82", "tcp-80:81/TCP=b tcp-80-2:82/TCP=b tcp-80-3:80/TCP=a", true},
		{"without a name are of one name", "a 1 :80; b 2 :81", "tcp-80:80/TCP=a", true},
		{"can be none", "a 1; b 2", "", false},
		{"the winner doesn't have are kept", "a 1; b 2 http:80", "http:80/TCP=b", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var records []*clustersetv1alpha1.ExportedService
			for export := range strings.SplitSeq(tc.exports, "; ") {
				words := strings.SplitN(export+" ", " ", 3)
				age, err := strconv.Atoi(words[1])
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, record(words[0], age, ports(words[2])))
			}
			r := resolve(records...)
			if got := portText(r.Ports); got != tc.want {
				t.Errorf("ports are %q, want %q", got, tc.want)
			}
			want := metav1.ConditionFalse
			if tc.conflict {
				want = metav1.ConditionTrue
			}
			c := r.ConflictCondition()
			if c.Status != want || tc.conflict && c.Reason != "PortConflict" {
				t.Errorf("condition is %s %s, want %s", c.Status, c.Reason, want)
			}
		})
	}
}

func TestAppProtocolsConflictButTrafficFlows(t *testing.T) {
	h2c := "kubernetes.io/h2c"
	r := resolve(record("a", 1), record("b", 2, func(s *clustersetv1alpha1.ExportedServiceSpec) { s.Ports[0].AppProtocol = &h2c }))
	if got := portText(r.Ports); got != "tcp-80:80/TCP=a+b" {
		t.Errorf("ports are %q", got)
	}
	if r.Ports[0].AppProtocol != nil {
		t.Errorf("appProtocol is %q, not the winner's", *r.Ports[0].AppProtocol)
	}
	if len(r.Conflicts) != 1 || r.Conflicts[0].Reason != mcsv1beta1.ServiceExportReasonPortConflict {
		t.Errorf("conflicts are %v", r.Conflicts)
	}
}

func TestPortsAreNoMoreThanAServiceOfOursHas(t *testing.T) {
	var records []*clustersetv1alpha1.ExportedService
	for c := range 3 {
		var text strings.Builder
		for p := range 60 {
			fmt.Fprintf(&text, "p%d-%d:%d ", c, p, 1000*c+p+1)
		}
		records = append(records, record(fmt.Sprintf("c%d", c), c, ports(text.String())))
	}
	if n := len(resolve(records...).Ports); n != api.MaxPorts {
		t.Errorf("%d ports, want %d", n, api.MaxPorts)
	}
}

// Rule C15 of docs/spec/control-plane.md.
func TestFamilies(t *testing.T) {
	for _, tc := range []struct {
		name     string
		records  []*clustersetv1alpha1.ExportedService
		want     []corev1.IPFamily
		conflict bool
	}{
		{"of one", []*clustersetv1alpha1.ExportedService{record("a", 1, families(v6, v4))}, []corev1.IPFamily{v6, v4}, false},
		{"that all share, in the winner's order", []*clustersetv1alpha1.ExportedService{
			record("a", 1, families(v6, v4)), record("b", 2, families(v4, v6)),
		}, []corev1.IPFamily{v6, v4}, false},
		{"that a younger export lacks", []*clustersetv1alpha1.ExportedService{
			record("a", 1, families(v6, v4)), record("b", 2, families(v4)), record("c", 3, families(v6)),
		}, []corev1.IPFamily{v6, v4}, true},
		{"that a younger export adds", []*clustersetv1alpha1.ExportedService{
			record("a", 1, families(v4)), record("b", 2, families(v4, v6)),
		}, []corev1.IPFamily{v4}, true},
		{"that nobody shares", []*clustersetv1alpha1.ExportedService{
			record("a", 2, families(v4)), record("b", 1, families(v6)),
		}, []corev1.IPFamily{v6}, true},
		{"that the oldest doesn't state", []*clustersetv1alpha1.ExportedService{
			record("a", 1, families()), record("b", 2, families(v4)),
		}, []corev1.IPFamily{v4}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := resolve(tc.records...)
			if !slices.Equal(r.IPFamilies, tc.want) {
				t.Errorf("families are %v, want %v", r.IPFamilies, tc.want)
			}
			got := len(r.Conflicts) == 1 && r.Conflicts[0].Reason == mcsv1beta1.ServiceExportReasonIPFamilyConflict
			if got != tc.conflict {
				t.Errorf("conflicts are %v", r.Conflicts)
			}
		})
	}
}

func TestAffinityConfigConflictsOnlyWithinOneAffinity(t *testing.T) {
	clientIP, none := corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone
	for _, tc := range []struct {
		name   string
		a, b   func(*clustersetv1alpha1.ExportedServiceSpec)
		reason string
	}{
		{"timeouts differ", affinity(clientIP, 60), affinity(clientIP, 61), "SessionAffinityConfigConflict"},
		{"the default, left out and written out", affinity(clientIP, 0), affinity(clientIP, 10800), "NoConflicts"},
		{"affinities differ", affinity(clientIP, 60), affinity(none, 0), "SessionAffinityConflict"},
		{"none has no timeout", affinity(none, 0), affinity(none, 61), "NoConflicts"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := resolve(record("a", 1, tc.a), record("b", 2, tc.b))
			if c := r.ConflictCondition(); c.Reason != tc.reason {
				t.Errorf("reason is %s, want %s", c.Reason, tc.reason)
			}
		})
	}
}

// Rule C16 of docs/spec/control-plane.md.
func TestConflictMessages(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []*clustersetv1alpha1.ExportedService
		want    string
	}{
		{"one alone", []*clustersetv1alpha1.ExportedService{record("a", 1)}, "no other cluster exports the service"},
		{"agreement", []*clustersetv1alpha1.ExportedService{record("a", 1), record("b", 1)}, "the exports of 2 clusters agree"},
		{
			"one disagrees",
			[]*clustersetv1alpha1.ExportedService{record("a", 5, ports("http:81")), record("b", 1, ports("http:80")), record("c", 2, ports("http:80"))},
			"ports: a (1 of 3 clusters) disagrees with b, whose export is the oldest (2026-01-01T00:00:01Z); b has http 80/TCP, a has http 81/TCP",
		},
		{
			"labels differ",
			[]*clustersetv1alpha1.ExportedService{record("a", 1, labels("tier", "1")), record("b", 2, labels("tier", "2")), record("c", 3)},
			`exported labels: b, c (2 of 3 clusters) disagree with a, whose export is the oldest (2026-01-01T00:00:01Z); a has {"tier":"1"}, b has {"tier":"2"}`,
		},
		{
			"a tie, two fields",
			[]*clustersetv1alpha1.ExportedService{record("b", 1, headless, ports("")), record("a", 1), record("c", 2, headless)},
			"ports: b (1 of 3 clusters) disagrees with a, whose name sorts first among the oldest exports (2026-01-01T00:00:01Z); a has 80/TCP, b has none. " +
				"type: b, c (2 of 3 clusters) disagree with a, whose name sorts first among the oldest exports (2026-01-01T00:00:01Z); a has ClusterSetIP, b has Headless",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := resolve(tc.records...)
			if got := r.ConflictCondition().Message; got != tc.want {
				t.Errorf("message is\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestSameButCounts(t *testing.T) {
	const message = "type: b (1 of 2 clusters) disagrees with a"
	for other, want := range map[string]bool{"type: b (1 of 9 clusters) disagrees with a": true, "type: c (1 of 2 clusters) disagrees with a": false} {
		if got := merge.SameButCounts(message, other); got != want {
			t.Errorf("%q: %t", other, got)
		}
	}
}

func TestConflictMessagesStayShort(t *testing.T) {
	records := []*clustersetv1alpha1.ExportedService{record("oldest", 0)}
	long := strings.Repeat("é", 400)
	for i := range 200 {
		records = append(records, record(fmt.Sprintf("c%03d", i), 1, annotations("note", long)))
	}
	r := resolve(records...)
	message := r.ConflictCondition().Message
	if len(message) > 2000 || !strings.Contains(message, "c000, c001, c002, c003, c004 and 195 more (200 of 201 clusters)") {
		t.Errorf("message has %d bytes: %.300s", len(message), message)
	}
}

// IsGenerated accepts only names that a port without a name can get.
func TestIsGenerated(t *testing.T) {
	for name, want := range map[string]bool{
		"tcp-80": true, "tcp-80-2": true, "": false, "http": false, "udp-80": false, "tcp-8": false, "tcp-805": false, "tcp-80-": false, "tcp-80-web": false, "tcp-80-+2": false,
	} {
		if got := merge.IsGenerated(name, corev1.ProtocolTCP, 80); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
