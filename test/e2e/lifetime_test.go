package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/kube"
)

// recorded returns nil if the hub has the member's records of the service exactly when it should.
func (f *fleet) recorded(member, ns, service string, want bool) error {
	names, err := f.hub.records(member)
	if err != nil {
		return err
	}
	has := slices.ContainsFunc(names, func(n string) bool {
		return n == api.ExportedServiceName(ns, service) || strings.HasPrefix(n, api.ExportedServiceName(ns, service)+".")
	})
	if has != want {
		return fmt.Errorf("%s has records of %s/%s on the hub: %v", member, ns, service, has)
	}
	return nil
}

// An import exists from the first export to the last un-export, in every cluster. Afterwards nothing of it is left anywhere.
func TestLifetimeOfAnImport(t *testing.T) {
	f := cities(t)
	ns := f.namespace("lifetime")
	a, b := f.member("xicheng"), f.member("shijiazhuang")
	web := func(m *member) {
		m.apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.5.1", m.number))))
	}
	for _, m := range []*member{a, b} {
		m.apply(service(ns, "unexported", httpPort))
	}
	web(a)
	f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "xicheng") })
	web(b)
	f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "xicheng", "shijiazhuang") })

	t.Run("un-exported in one of two clusters", func(t *testing.T) {
		f := f.of(t)
		began := time.Now()
		a.remove(export(ns, "web", ""))
		f.eventually(func(m *member) error {
			i, err := m.imported(ns, "web")
			if err == nil && len(i.slices) != 1 {
				err = fmt.Errorf("%d slices", len(i.slices))
			}
			return errors.Join(err, m.importedFrom(ns, "web", "shijiazhuang"))
		})
		kube.Eventually(t, soon, func() error { return f.recorded("xicheng", ns, "web", false) })
		took(t, "un-exporting in one cluster", began)
	})
	t.Run("un-exported in the last", func(t *testing.T) {
		f := f.of(t)
		began := time.Now()
		b.remove(export(ns, "web", ""))
		f.eventually(func(m *member) error {
			return errors.Join(m.gone(ns, "web"),
				m.dns.answers("web."+ns+".svc.clusterset.local", "A", "NXDOMAIN"),
				m.dns.answers("web."+ns+".svc.global", "A", "NXDOMAIN"))
		})
		kube.Eventually(t, soon, func() error { return f.recorded("shijiazhuang", ns, "web", false) })
		took(t, "un-exporting in the last cluster", began)
	})
	t.Run("by the deletion of the Service", func(t *testing.T) {
		f := f.of(t)
		web(a)
		f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "xicheng") })
		began := time.Now()
		a.remove(service(ns, "web", ""))
		f.eventually(func(m *member) error { return m.gone(ns, "web") })
		took(t, "the deletion of an exported Service", began)
		kube.Eventually(t, soon, func() error { return a.exportIs(ns, "web", "Valid", "False", "NoService") })
		// The ServiceExport exists already, so the Service alone causes the import.
		a.apply(service(ns, "web", httpPort))
		f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "xicheng") })
	})
	t.Run("while the agent that should remove it was away", func(t *testing.T) {
		f := f.of(t)
		a.killAgent()
		a.remove(export(ns, "web", ""))
		a.startAgent()
		f.eventually(func(m *member) error { return m.gone(ns, "web") })
		f.settle()
	})
	for _, m := range f.members {
		if err := m.gone(ns, "unexported"); err != nil {
			t.Errorf("%s: nothing is exported by default: %v", m.name, err)
		}
	}
}

// A mark's ServiceExport belongs to the Service and is deleted with it, and with the namespace where controllers run.
func TestNamespaceDeletion(t *testing.T) {
	f := cities(t)
	ns := f.namespace("deletion")
	a := f.member("xicheng") // has a namespace controller and a garbage collector
	a.apply(annotated(ns, "web", httpPort))
	f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "xicheng") })
	var export mcsv1beta1.ServiceExport
	var svc corev1.Service
	if err := errors.Join(a.get(ns, "web", &export), a.get(ns, "web", &svc)); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(&export, &svc) {
		t.Errorf("the ServiceExport's owners are %v", export.OwnerReferences)
	}
	a.remove("{apiVersion: v1, kind: Namespace, metadata: {name: " + ns + "}}")
	began := time.Now()
	f.eventually(func(m *member) error { return m.gone(ns, "web") })
	kube.Eventually(t, soon, func() error {
		if err := a.get("", ns, &corev1.Namespace{}); err == nil {
			return errors.New("the namespace is still being deleted: something is written into it, or holds it")
		}
		return nil
	})
	took(t, "the deletion of a namespace with an export", began)
	// The others still have the namespace, so they may export.
	f.member("minhang").apply(exported(ns, "web", httpPort))
	f.eventually(func(m *member) error {
		if m == a {
			return m.gone(ns, "web")
		}
		return m.importedFrom(ns, "web", "minhang")
	})
	a.namespace(ns)
	f.eventually(func(m *member) error { return m.importedFrom(ns, "web", "minhang") })
}

// A service is imported as soon as its namespace exists.
func TestNamespaceThatAppearsLater(t *testing.T) {
	f := cities(t)
	ns := numbered("appears-later")
	a := f.member("chaoyang")
	a.namespace(ns)
	a.apply(exported(ns, "web", httpPort), slice(ns, "web", "1", "IPv4", port8080, endpoint("10.201.6.1")))
	kube.Eventually(t, soon, func() error { return a.importedFrom(ns, "web", "chaoyang") })
	others := slices.DeleteFunc(slices.Clone(f.members), func(m *member) bool { return m.name == a.name })
	for _, m := range others {
		m.dns.eventually("web."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
	}
	for _, m := range others {
		began := time.Now()
		m.namespace(ns)
		kube.Eventually(t, soon, func() error { return m.importedFrom(ns, "web", "chaoyang") })
		took(t, "the import into a namespace that appears", began)
		m.dns.eventually("web."+ns+".svc.global", "A", a.clusterIP(ns, "web", v4))
	}
}
