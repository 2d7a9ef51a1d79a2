package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// conflictCase has the specs of an older and a younger export, which disagree, and what the import must be like.
type conflictCase struct {
	name                      string
	older, younger            string // Services
	olderExport, youngerOther string // ServiceExports' specs
	reason                    string
	won                       func(mcsv1beta1.ServiceImportSpec) bool
}

var conflictCases = []conflictCase{
	{
		name: "port", older: httpPort, younger: "ports: [{name: http, port: 8000}, {name: admin, port: 9000}]", reason: "PortConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool {
			return len(s.Ports) == 2 && s.Ports[0].Name == "http" && s.Ports[0].Port == 80 && s.Ports[1].Name == "admin" && s.Ports[1].Port == 9000
		},
	},
	{
		// For a headless Service without a selector the API server sets all families, unless the spec says otherwise.
		name: "type", older: "clusterIP: None, ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], " + httpPort, younger: httpPort, reason: "TypeConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool { return s.Type == mcsv1beta1.Headless && len(s.IPs) == 0 },
	},
	{
		name: "affinity", older: "sessionAffinity: ClientIP, " + httpPort, younger: httpPort, reason: "SessionAffinityConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool { return s.SessionAffinity == corev1.ServiceAffinityClientIP },
	},
	{
		name:    "affinity-config",
		older:   "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}, " + httpPort,
		younger: "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90}}, " + httpPort,
		reason:  "SessionAffinityConfigConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool {
			c := s.SessionAffinityConfig
			return c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil && *c.ClientIP.TimeoutSeconds == 60
		},
	},
	{
		name: "labels", older: httpPort, younger: httpPort, olderExport: "exportedLabels: {team: a}", youngerOther: "exportedLabels: {team: b}", reason: "LabelsConflict",
		won: func(mcsv1beta1.ServiceImportSpec) bool { return true }, // the metadata shows it; see TestServiceImport
	},
	{
		name: "annotations", older: httpPort, younger: httpPort, olderExport: "exportedAnnotations: {note: a}", reason: "AnnotationsConflict",
		won: func(mcsv1beta1.ServiceImportSpec) bool { return true },
	},
	{
		name: "traffic-policy", older: "internalTrafficPolicy: Local, " + httpPort, younger: httpPort, reason: "InternalTrafficPolicyConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool {
			return s.InternalTrafficPolicy != nil && *s.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		},
	},
	{
		name: "distribution", older: "trafficDistribution: PreferClose, " + httpPort, younger: httpPort, reason: "TrafficDistributionConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool {
			return s.TrafficDistribution != nil && *s.TrafficDistribution == corev1.ServiceTrafficDistributionPreferClose
		},
	},
	{
		name: "families", older: "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6], " + httpPort,
		younger: "ipFamilyPolicy: SingleStack, ipFamilies: [IPv6], " + httpPort, reason: "IPFamilyConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool { // also in the clusters that have no other family
			return len(s.IPFamilies) > 0 && s.IPFamilies[0] == v4 && len(s.IPs) == len(s.IPFamilies) && fleettest.FamilyOf(s.IPs[0]) == v4
		},
	},
	{
		name:         "everything",
		older:        "clusterIP: None, ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], sessionAffinity: ClientIP, internalTrafficPolicy: Local, trafficDistribution: PreferClose, " + httpPort,
		younger:      "ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], ports: [{name: http, port: 81}]",
		olderExport:  "exportedLabels: {team: a}",
		youngerOther: "exportedAnnotations: {note: b}",
		reason: "AnnotationsConflict,IPFamilyConflict,InternalTrafficPolicyConflict,LabelsConflict,PortConflict," +
			"SessionAffinityConflict,TrafficDistributionConflict,TypeConflict",
		won: func(s mcsv1beta1.ServiceImportSpec) bool { return s.Type == mcsv1beta1.Headless },
	},
}

// Every conflict reason appears on all exports of the service. The oldest export wins: not the local one, not the majority
// (two of three disagree with it), and not the first by name.
func TestConflicts(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("conflicts")
	older, younger, third := f.Member("xicheng"), f.Member("chaoyang"), f.Member("minhang")
	for _, c := range conflictCases {
		older.Apply(service(ns, c.name, c.older), export(ns, c.name, c.olderExport))
	}
	letASecondPass(older, ns, conflictCases[len(conflictCases)-1].name)
	began := time.Now()
	for _, c := range conflictCases {
		for _, m := range []*fleettest.Member{younger, third} {
			m.Apply(service(ns, c.name, c.younger), export(ns, c.name, c.youngerOther))
		}
	}
	fleettest.Took(t, fmt.Sprintf("making %d exports", 2*len(conflictCases)), began)
	began = time.Now()
	for _, c := range conflictCases {
		t.Run(c.reason, func(t *testing.T) {
			kube.Eventually(t, func() error {
				var errs []error
				for _, m := range []*fleettest.Member{older, younger, third} {
					errs = append(errs, m.ExportIs(ns, c.name, mcsv1beta1.ServiceExportConditionConflict, "True", c.reason))
				}
				for _, m := range f.Members {
					errs = append(errs, importHas(m, ns, c.name, c.won), importedFrom(m, ns, c.name, "xicheng", "chaoyang", "minhang"))
				}
				return errors.Join(errs...)
			})
			event, _, _ := strings.Cut(c.reason, ",") // all may be too long for an Event
			for _, m := range []*fleettest.Member{older, younger, third} {
				kube.Eventually(t, func() error { return m.HasEvent("ServiceExport", ns, c.name, event, "xicheng", "oldest") })
			}
			var e mcsv1beta1.ServiceExport
			if err := younger.Get(ns, c.name, &e); err != nil {
				t.Fatal(err)
			}
			message := fleettest.Condition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)).Message
			for _, want := range []string{"2 of 3 clusters", "xicheng", "oldest"} {
				if !strings.Contains(message, want) {
					t.Errorf("the message doesn't say %q: %s", want, message)
				}
			}
		})
	}
	fleettest.Took(t, "all conditions, from the last of these exports on,", began)

	// Without the losing exports there is no conflict, and the remaining export reports that.
	began = time.Now()
	for _, c := range conflictCases {
		for _, m := range []*fleettest.Member{younger, third} {
			m.Remove(export(ns, c.name, ""), service(ns, c.name, "")) // the Service too, because mass deletions of ServiceExports alone are held
		}
	}
	kube.Eventually(t, func() error {
		var errs []error
		for _, c := range conflictCases {
			errs = append(errs, older.ExportIs(ns, c.name, mcsv1beta1.ServiceExportConditionConflict, "False", "NoConflicts"))
		}
		return errors.Join(errs...)
	})
	fleettest.Took(t, "the end of the conflicts", began)
}

// When the oldest export is removed, the next oldest wins. A newer one never does.
func TestOldestExportWins(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("oldest")
	order := []string{"shijiazhuang", "minhang", "chaoyang", "xicheng"} // not alphabetical
	for i, name := range order {
		f.Member(name).Apply(exported(ns, "web", fmt.Sprintf("ports: [{name: http, port: %d}]", 81+i)))
		letASecondPass(f.Member(name), ns, "web")
	}
	for i, name := range order {
		f.Eventually(func(m *fleettest.Member) error {
			return errors.Join(importedFrom(m, ns, "web", order[i:]...), importHas(m, ns, "web", func(s mcsv1beta1.ServiceImportSpec) bool {
				return len(s.Ports) == 1 && s.Ports[0].Port == int32(81+i)
			}))
		})
		f.Member(name).Remove(export(ns, "web", ""))
	}
	f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "web") })
}

// Exports of the same second are ordered by their clusters' names, in the same way everywhere.
func TestTiesGoByName(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("ties")
	a, z := f.Member("chaoyang"), f.Member("xicheng")
	a.Apply(service(ns, "web", "ports: [{name: http, port: 80}]"))
	z.Apply(service(ns, "web", "ports: [{name: http, port: 81}]"))
	// Create the export that sorts last first, and try again until both have the same timestamp.
	tied := false
	for range 50 {
		z.Apply(export(ns, "web", ""))
		a.Apply(export(ns, "web", ""))
		var first, second mcsv1beta1.ServiceExport
		if err := errors.Join(a.Get(ns, "web", &first), z.Get(ns, "web", &second)); err != nil {
			t.Fatal(err)
		}
		if tied = first.CreationTimestamp.Equal(&second.CreationTimestamp); tied {
			break
		}
		a.Remove(export(ns, "web", ""))
		z.Remove(export(ns, "web", ""))
	}
	if !tied {
		t.Fatal("of fifty pairs of exports none was made within one second")
	}
	f.Eventually(func(m *fleettest.Member) error {
		return errors.Join(importedFrom(m, ns, "web", "chaoyang", "xicheng"), importHas(m, ns, "web", func(s mcsv1beta1.ServiceImportSpec) bool {
			return len(s.Ports) == 1 && s.Ports[0].Port == 80
		}))
	})
	kube.Eventually(t, func() error {
		return errors.Join(a.ExportIs(ns, "web", "Conflict", "True", "PortConflict"), z.ExportIs(ns, "web", "Conflict", "True", "PortConflict"))
	})
}

// letASecondPass waits until later exports are younger than this one. Timestamps have a resolution of one second.
func letASecondPass(m *fleettest.Member, ns, name string) {
	m.Helper()
	kube.Eventually(m, func() error {
		var e mcsv1beta1.ServiceExport
		if err := m.Get(ns, name, &e); err != nil {
			return err
		}
		if !time.Now().Truncate(time.Second).After(e.CreationTimestamp.Time) {
			return errors.New("still the same second")
		}
		return nil
	})
}
