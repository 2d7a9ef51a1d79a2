package index

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Measures what the update of a GlobalService costs before it reaches the index: go test -run '^$' -bench FromGlobalService
// ./internal/index
func BenchmarkFromGlobalService(b *testing.B) {
	for _, n := range []int{3, 30, 1000} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			o := &fabedgev1alpha1.GlobalService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			o.Spec.Type, o.Spec.Ports = fabedgev1alpha1.Headless, []fabedgev1alpha1.ServicePort{{Name: "http", Port: 80}, {Name: "admin", Port: 8080}}
			for i := range n {
				hostname := fmt.Sprintf("web-%d", i)
				o.Spec.Endpoints = append(o.Spec.Endpoints, fabedgev1alpha1.Endpoint{
					Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 3*i/n, i/250, 1+i%250)}, Hostname: &hostname,
					Cluster: fmt.Sprintf("c%d", 3*i/n), Zone: fmt.Sprintf("z%d", i%3), Region: "r1",
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				if out, errs := FromGlobalService(o); len(errs) > 0 || len(out.Groups) != 3 {
					b.Fatal(out, errs)
				}
			}
		})
	}
}
