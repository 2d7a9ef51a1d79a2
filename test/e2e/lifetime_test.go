package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// In every cluster, an import exists from the first export to the last un-export. Afterwards nothing of it is left anywhere.
func TestLifetimeOfAnImport(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("lifetime")
	a, b := f.Member("xicheng"), f.Member("shijiazhuang")
	web := func(m *fleettest.Member) {
		m.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.5.1", m.Number))))
	}
	for _, m := range []*fleettest.Member{a, b} {
		m.Apply(service(ns, "unexported", httpPort))
	}
	web(a)
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng") })
	web(b)
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng", "shijiazhuang") })

	t.Run("un-exported in one of two clusters", func(t *testing.T) {
		f := f.For(t)
		began := time.Now()
		a.Remove(export(ns, "web", ""))
		f.Eventually(func(m *fleettest.Member) error {
			i, err := m.Imported(ns, "web")
			if err == nil && len(i.Slices) != 1 {
				err = fmt.Errorf("%d slices", len(i.Slices))
			}
			return errors.Join(err, importedFrom(m, ns, "web", "shijiazhuang"))
		})
		kube.Eventually(t, func() error { return f.Recorded("xicheng", ns, "web", false) })
		fleettest.Took(t, "un-exporting in one cluster", began)
	})
	t.Run("un-exported in the last", func(t *testing.T) {
		f := f.For(t)
		began := time.Now()
		b.Remove(export(ns, "web", ""))
		f.Eventually(func(m *fleettest.Member) error {
			return errors.Join(m.Gone(ns, "web"),
				m.DNS.Answers("web."+ns+".svc.clusterset.local", "A", "NXDOMAIN"),
				m.DNS.Answers("web."+ns+".svc.global", "A", "NXDOMAIN"))
		})
		kube.Eventually(t, func() error { return f.Recorded("shijiazhuang", ns, "web", false) })
		fleettest.Took(t, "un-exporting in the last cluster", began)
	})
	t.Run("by the deletion of the Service", func(t *testing.T) {
		f := f.For(t)
		web(a)
		f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng") })
		began := time.Now()
		a.Remove(service(ns, "web", ""))
		f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "web") })
		fleettest.Took(t, "the deletion of an exported Service", began)
		kube.Eventually(t, func() error { return a.ExportIs(ns, "web", "Valid", "False", "NoService") })
		// The ServiceExport exists already, so the Service alone causes the import.
		a.Apply(service(ns, "web", httpPort))
		f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng") })
	})
	t.Run("replacing its only Service or ServiceExport", func(t *testing.T) {
		f := f.For(t)
		imports := func() (all []string) {
			for _, m := range f.Members {
				var imp mcsv1beta1.ServiceImport
				if err := m.Get(ns, "web", &imp); err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprint(m.Spec.Name, " ", imp.UID, imp.Spec.IPs))
			}
			return all
		}
		before := imports()
		for _, replaced := range []string{service(ns, "web", httpPort), export(ns, "web", ""), exported(ns, "web", httpPort)} {
			a.Remove(replaced)
			a.Apply(replaced)
		}
		f.Eventually(func(*fleettest.Member) error {
			svc, record := &corev1.Service{}, &clustersetv1alpha1.ExportedService{}
			err := errors.Join(a.Get(ns, "web", svc), f.Hub.Get(api.MemberNamespace("xicheng"), "web."+ns, record))
			if err == nil && !slices.Equal(svc.Spec.ClusterIPs, record.Spec.ClusterIPs) {
				err = fmt.Errorf("the hub has %v, the Service %v", record.Spec.ClusterIPs, svc.Spec.ClusterIPs)
			}
			return err
		})
		if after := imports(); !slices.Equal(before, after) {
			t.Errorf("imports before %v and after %v", before, after)
		}
	})
	t.Run("while the agent that should remove it was away", func(t *testing.T) {
		f := f.For(t)
		a.KillAgent()
		a.Remove(export(ns, "web", ""))
		a.StartAgent()
		f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "web") })
		f.Settle()
	})
	for _, m := range f.Members {
		if err := m.Gone(ns, "unexported"); err != nil {
			t.Errorf("%s: nothing is exported by default: %v", m.Spec.Name, err)
		}
	}
}

// The ServiceExport of a marked Service belongs to the Service. It is deleted with the Service and, where controllers run,
// with the namespace.
func TestNamespaceDeletion(t *testing.T) {
	f := cities(t)
	ns := f.Namespace("deletion")
	a := f.Member("xicheng") // has a namespace controller and a garbage collector
	a.Apply(annotated(ns, "web", httpPort))
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "xicheng") })
	var export mcsv1beta1.ServiceExport
	var svc corev1.Service
	if err := errors.Join(a.Get(ns, "web", &export), a.Get(ns, "web", &svc)); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(&export, &svc) {
		t.Errorf("the ServiceExport's owners are %v", export.OwnerReferences)
	}
	a.Remove("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
	began := time.Now()
	f.Eventually(func(m *fleettest.Member) error { return m.Gone(ns, "web") })
	kube.Eventually(t, func() error {
		if err := a.Get("", ns, &corev1.Namespace{}); err == nil {
			return errors.New("the namespace is still being deleted: something is written into it, or holds it")
		}
		return nil
	})
	fleettest.Took(t, "the deletion of a namespace with an export", began)
	// The other clusters still have the namespace, so they can export.
	f.Member("minhang").Apply(exported(ns, "web", httpPort))
	f.Eventually(func(m *fleettest.Member) error {
		if m == a {
			return m.Gone(ns, "web")
		}
		return importedFrom(m, ns, "web", "minhang")
	})
	a.Namespace(ns)
	f.Eventually(func(m *fleettest.Member) error { return importedFrom(m, ns, "web", "minhang") })
}

// A service is imported as soon as its namespace exists.
func TestNamespaceThatAppearsLater(t *testing.T) {
	f := cities(t)
	ns := fleettest.Numbered("appears-later")
	a := f.Member("chaoyang")
	a.Namespace(ns)
	a.Apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.201.6.1")))
	kube.Eventually(t, func() error { return importedFrom(a, ns, "web", "chaoyang") })
	others := slices.DeleteFunc(slices.Clone(f.Members), func(m *fleettest.Member) bool { return m.Spec.Name == a.Spec.Name })
	for _, m := range others {
		m.DNS.Eventually("web."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
	}
	for _, m := range others {
		began := time.Now()
		m.Namespace(ns)
		kube.Eventually(t, func() error { return importedFrom(m, ns, "web", "chaoyang") })
		fleettest.Took(t, "the import into a namespace that appears", began)
		m.DNS.Eventually("web."+ns+".svc.global", "A", a.ClusterIP(ns, "web", v4))
	}
}
