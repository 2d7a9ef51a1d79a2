package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/mcs"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/records"
)

func TestFamilies(t *testing.T) {
	w := newWorld(t, kube.WithServiceCIDRs("10.96.0.0/16", "fd00:10:96::/112"))
	w.member.InstallMCS(t)
	w.here(namespace("shop"))
	dual := strings.NewReplacer("clusterIPs: [10.1.0.1]", "clusterIPs: ['fd00::1', 10.1.0.1]", "[IPv4]", "[IPv6, IPv4]").
		Replace(records.Exported("baoding", "shop", "web", "10.1.0.1", "10.11.0.5"))
	w.onHub(dual)
	w.start(Options{})
	o := w.imported("shop", "web", 1)
	if got := o.serviceImport.Spec; len(got.IPs) != 2 || len(o.derived.Spec.ClusterIPs) != 2 || got.IPs[1] != o.derived.Spec.ClusterIPs[0] ||
		!slices.Equal(got.IPFamilies, []corev1.IPFamily{"IPv6", "IPv4"}) {
		t.Errorf("ips are %v, families %v, the derived Service has %v", got.IPs, got.IPFamilies, o.derived.Spec.ClusterIPs)
	}
	both := o.serviceImport.Spec.IPs

	// A second cluster has only IPv4. It comes later, so nothing changes for the clients of the first: C15 of
	// docs/spec/control-plane.md. When the first cluster leaves, IPv6 would lead nowhere.
	later := strings.ReplaceAll(records.Exported("shanghai", "shop", "web", "10.2.0.1", "10.12.0.5"), "2026-01-01", "2026-01-02")
	w.onHub(later)
	o = w.imported("shop", "web", 2)
	if got := o.serviceImport.Spec; !slices.Equal(got.IPs, both) {
		t.Errorf("ips are %v, families %v", got.IPs, got.IPFamilies)
	}
	w.withdraw(dual)
	o = w.imported("shop", "web", 1)
	if got := o.serviceImport.Spec; !slices.Equal(got.IPs, both[1:]) || !slices.Equal(got.IPFamilies, []corev1.IPFamily{"IPv4"}) {
		t.Errorf("ips are %v, families %v", got.IPs, got.IPFamilies)
	}
	w.onHub(dual)
	o = w.imported("shop", "web", 2)
	if got := o.serviceImport.Spec.IPs; !slices.Equal(got, both) {
		t.Errorf("ips are %v, and were %v", got, both)
	}
}

// TestAnOldMemberOfOneFamily imports into a member that only has ServiceImport v1alpha1 and no IPv6.
func TestAnOldMemberOfOneFamily(t *testing.T) {
	w := newWorld(t)
	for _, crd := range kube.MCSCRDs() {
		old := strings.Replace(string(crd), "served: true\n      storage: false", "served: true\n      storage: true", 1)
		old, _, _ = strings.Cut(old, "    - name: v1beta1")
		w.here(old)
	}
	w.here(namespace("shop"))
	w.onHub(
		strings.NewReplacer("clusterIPs: [10.1.0.1]", "clusterIPs: ['fd00::1', 10.1.0.1]", "[IPv4]", "[IPv6, IPv4]").
			Replace(records.Exported("baoding", "shop", "dual", "10.1.0.1", "10.11.0.5")),
		strings.NewReplacer("clusterIPs: [10.1.0.2]", "clusterIPs: ['fd00::2']", "[IPv4]", "[IPv6]", "addressType: IPv4", "addressType: IPv6").
			Replace(records.Exported("baoding", "shop", "six", "10.1.0.2", "'fd00:11::5'")),
	)
	run := w.start(Options{CreateNamespaces: true})
	get := func(name string) (*mcsv1beta1.ServiceImport, error) {
		o := mcs.Version("v1alpha1").NewImport()
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, o); err != nil {
			return nil, err
		}
		return mcs.DecodeImport(o)
	}
	wait := func(name, status, reason string) *mcsv1beta1.ServiceImport {
		var imp *mcsv1beta1.ServiceImport
		kube.Eventually(t, func() (err error) {
			if imp, err = get(name); err != nil {
				return err
			}
			c := meta.FindStatusCondition(imp.Status.Conditions, "Ready")
			if c == nil || string(c.Status) != status || c.Reason != reason {
				return fmt.Errorf("condition of %s is %+v", name, c)
			}
			return nil
		})
		return imp
	}
	if got := wait("dual", "True", "Ready").Spec; len(got.IPs) != 1 || !slices.Equal(got.IPFamilies, []corev1.IPFamily{"IPv4"}) {
		t.Errorf("ips are %v, families %v", got.IPs, got.IPFamilies)
	}
	if got := wait("six", "False", "IPFamilyNotSupported").Spec; len(got.IPs) != 0 {
		t.Errorf("ips are %v", got.IPs)
	}
	w.quiet(run, 1)
	before := run.local.written()
	w.onHub(records.Exported("shanghai", "made", "web", "10.2.0.1", "10.12.0.5")) // into a namespace that the importer creates
	kube.Eventually(t, func() error {
		return w.client.Get(t.Context(), client.ObjectKey{Namespace: "made", Name: api.DerivedServiceName("made", "web")}, &corev1.Service{})
	})
	w.quiet(run, 1)
	for _, write := range run.local.written()[len(before):] {
		if strings.Contains(write, "/shop/") {
			t.Errorf("wrote %s though nothing of it changed", write)
		}
	}
}
