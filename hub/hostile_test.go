package hub

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// The hub's API server refuses names in communities and exportTo that could be mistaken for something else, even from an administrator.
func TestAPIServerRefusesHostileNames(t *testing.T) {
	hub := kube.Start(t)
	hub.Apply(t, crds.All()...)
	c, err := connect.NewClient(hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	labels := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("l%02d", i))
		}
		return all
	}
	for _, tc := range []struct {
		name  string
		names []string
		want  string // a part of the error, or empty if the names are accepted
	}{
		{"labels", []string{"payments", "edge-asia", "7"}, ""},
		{"as long as may be", []string{strings.Repeat("a", 63)}, ""},
		{"as many as may be", labels(64), ""},
		{"empty", []string{""}, "should be at least 1 chars long"},
		{"too long", []string{strings.Repeat("a", 64)}, "Too long"},
		{"upper case", []string{"Payments"}, "should match"},
		{"everybody", []string{"*"}, "should match"},
		{"twice", []string{"payments", "payments"}, "Duplicate value"},
		{"too many", labels(65), "Too many: 65: must have at most 64 items"},
		{"not ASCII", []string{"支付"}, "should match"},
		{"a Cyrillic letter", []string{"pаyments"}, "should match"},
		{"like a path", []string{"../payments"}, "should match"},
		{"a path", []string{"edge/asia"}, "should match"},
		{"two labels", []string{"edge.asia"}, "should match"},
		{"a dash at the end", []string{"edge-"}, "should match"},
		{"two lines", []string{"edge\nasia"}, "should match"},
		{"for a terminal", []string{"a\x1b[31m"}, "should match"},
	} {
		member := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "beijing"}, Spec: clustersetv1alpha1.MemberClusterSpec{Communities: tc.names}}
		record := &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web.shop"},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: "shop", ServiceName: "web", Type: mcsv1beta1.Headless, ExportedAt: metav1.Now(), ExportTo: tc.names,
			},
		}
		for field, o := range map[string]client.Object{"spec.communities": member, "spec.exportTo": record} {
			err := c.Create(t.Context(), o, client.DryRunAll)
			if tc.want == "" && err == nil {
				continue
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) || tc.want == "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %s: %v, want %q", tc.name, field, err, tc.want)
			}
		}
	}
}
