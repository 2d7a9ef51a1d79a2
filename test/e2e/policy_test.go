package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// exportWith returns a ServiceExport with annotations, which are in YAML's flow style.
func exportWith(ns, name, annotations string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s, annotations: {%s}}}", ns, name, annotations)
}

const headlessService = "clusterIP: None, ipFamilyPolicy: SingleStack, ipFamilies: [IPv4], " + httpPort

// policyCase is a policy on xicheng's export, which is the oldest, and its effects. Each city has one endpoint, 10.<its
// number>.0.1. xicheng and chaoyang are in the zone beijing, shijiazhuang is in their region, and minhang is far away.
type policyCase struct {
	name, annotations string
	spec              string // of the Service, in addition to headlessService
	marked            bool   // exported by a mark on the Service, which carries the annotations
	want              map[string]string
	fromBeijing       string // the cities in the answer of a server in Beijing
	said              string // what the ServiceExport's condition reports about invalid values
}

var policyCases = []policyCase{
	{name: "nothing", fromBeijing: "xicheng chaoyang"},
	{name: "prefer-none", annotations: "clusterset.dev/prefer: none", want: map[string]string{api.AnnotationPrefer: "none"}, fromBeijing: "xicheng chaoyang minhang shijiazhuang"},
	{name: "prefer-cluster", annotations: "clusterset.dev/prefer: cluster zone", want: map[string]string{api.AnnotationPrefer: "cluster zone"}, fromBeijing: "xicheng"},
	{
		name: "boundary", annotations: "clusterset.dev/prefer: none, clusterset.dev/boundary: region",
		want: map[string]string{api.AnnotationPrefer: "none", api.AnnotationBoundary: "region"}, fromBeijing: "xicheng chaoyang shijiazhuang",
	},
	{name: "min-ready", annotations: `clusterset.dev/min-ready: "3"`, want: map[string]string{api.AnnotationMinReady: "3"}, fromBeijing: "xicheng chaoyang shijiazhuang"},
	{name: "distribution", spec: "trafficDistribution: PreferClose, ", want: map[string]string{api.AnnotationPrefer: "zone region"}, fromBeijing: "xicheng chaoyang"},
	{name: "marked", annotations: "clusterset.dev/prefer: none", marked: true, want: map[string]string{api.AnnotationPrefer: "none"}, fromBeijing: "xicheng chaoyang minhang shijiazhuang"},
	{
		name: "bad-prefer", annotations: `clusterset.dev/prefer: near, clusterset.dev/boundary: zone`, want: map[string]string{api.AnnotationBoundary: "zone"}, fromBeijing: "xicheng chaoyang",
		said: `metadata.annotations[clusterset.dev/prefer]: Invalid value: "near": unknown tier "near": want one or more of cluster, zone and region`,
	},
	{
		name: "bad-boundary", annotations: `clusterset.dev/boundary: planet`, fromBeijing: "xicheng chaoyang",
		said: `metadata.annotations[clusterset.dev/boundary]: Invalid value: "planet": unknown tier "planet": want cluster, zone or region`,
	},
	{
		name: "bad-min-ready", annotations: `clusterset.dev/min-ready: none`, fromBeijing: "xicheng chaoyang",
		said: `metadata.annotations[clusterset.dev/min-ready]: Invalid value: "none": want a whole number from 1 to 100000`,
	},
}

// The policy of the oldest export reaches every cluster's ServiceImport and GlobalService, and DNS follows it. Invalid
// values are reported, and the rest applies.
func TestPolicy(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("policy")
	oldest := f.Member("xicheng")
	number := map[string]int{}
	for i, m := range f.Members {
		number[m.Spec.Name] = i + 1
	}
	for _, c := range policyCases {
		if c.marked {
			oldest.Apply(strings.Replace(annotated(ns, c.name, c.spec+headlessService), `global-service: "true"`, `global-service: "true", `+c.annotations, 1))
		} else {
			oldest.Apply(service(ns, c.name, c.spec+headlessService), exportWith(ns, c.name, c.annotations))
		}
	}
	letASecondPass(oldest, ns, "marked") // the agent creates this one, which may take a moment
	letASecondPass(oldest, ns, policyCases[len(policyCases)-1].name)
	for _, c := range policyCases {
		for _, m := range f.Members {
			m.Apply(slice(ns, c.name, "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.%d.0.1", number[m.Spec.Name]))))
			if m != oldest {
				m.Apply(service(ns, c.name, c.spec+headlessService), export(ns, c.name, ""))
			}
		}
	}
	beijing := oldest.DNS
	for _, c := range policyCases {
		t.Run(c.name, func(t *testing.T) {
			var want []string
			for _, city := range strings.Fields(c.fromBeijing) {
				want = append(want, fmt.Sprintf("10.%d.0.1", number[city]))
			}
			kube.Eventually(t, func() error {
				var errs []error
				for _, m := range f.Members {
					errs = append(errs, states(m, ns, c.name, c.want))
				}
				for _, zone := range []string{"clusterset.local", "svc.global"} {
					name := fmt.Sprintf("%s.%s.%s.", c.name, ns, zone)
					if zone == "clusterset.local" {
						name = fmt.Sprintf("%s.%s.svc.%s.", c.name, ns, zone)
					}
					errs = append(errs, beijing.Answers(name, "A", want...))
				}
				return errors.Join(errs...)
			})
			reason := "NoConflicts"
			status := "False"
			if len(c.want) > 0 && c.spec == "" {
				status, reason = "True", "PolicyConflict" // the other cities state no policy
			}
			kube.Eventually(t, func() error {
				var errs []error
				for _, m := range f.Members {
					errs = append(errs, m.ExportIs(ns, c.name, mcsv1beta1.ServiceExportConditionConflict, status, reason))
				}
				errs = append(errs, oldest.ExportIs(ns, c.name, mcsv1beta1.ServiceExportConditionReady, "True", "Exported"))
				return errors.Join(errs...)
			})
			var e mcsv1beta1.ServiceExport
			if err := oldest.Get(ns, c.name, &e); err != nil {
				t.Fatal(err)
			}
			is := fleettest.Condition(e.Status.Conditions, api.ConditionComplete)
			if c.said == "" && is != nil || c.said != "" && (is == nil || !strings.Contains(is.Message, c.said)) {
				t.Errorf("the condition says %+v, want %q", is, c.said)
			}
		})
	}

	// A removed policy is removed everywhere.
	oldest.Apply(exportWith(ns, "prefer-none", ""))
	kube.Eventually(t, func() error {
		var errs []error
		for _, m := range f.Members {
			errs = append(errs, states(m, ns, "prefer-none", nil))
		}
		return errors.Join(append(errs, beijing.Answers(fmt.Sprintf("prefer-none.%s.svc.clusterset.local.", ns), "A",
			fmt.Sprintf("10.%d.0.1", number["xicheng"]), fmt.Sprintf("10.%d.0.1", number["chaoyang"])))...)
	})
}

// states returns nil if the ServiceImport and the GlobalService have exactly that policy.
func states(m *fleettest.Member, ns, name string, want map[string]string) error {
	var imp mcsv1beta1.ServiceImport
	var global fabedgev1alpha1.GlobalService
	if err := errors.Join(m.Get(ns, name, &imp), m.Get(ns, name, &global)); err != nil {
		return err
	}
	for _, o := range []struct {
		kind        string
		annotations map[string]string
	}{{"ServiceImport", imp.Annotations}, {"GlobalService", global.Annotations}} {
		for _, key := range []string{api.AnnotationPrefer, api.AnnotationBoundary, api.AnnotationMinReady} {
			if got := o.annotations[key]; got != want[key] {
				return fmt.Errorf("%s: %s of %s says %q, want %q", m.Spec.Name, o.kind, key, got, want[key])
			}
		}
	}
	return nil
}
