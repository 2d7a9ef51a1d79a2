package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Imported has a member's objects for an imported service. Fields are nil for missing objects.
type Imported struct {
	ServiceImport *mcsv1beta1.ServiceImport
	Derived       *corev1.Service
	Global        *fabedgev1alpha1.GlobalService
	Slices        []discoveryv1.EndpointSlice // of the imported service, sorted by name
}

// Imported reads a service's imported objects.
func (m *Member) Imported(namespace, name string) (Imported, error) {
	i := Imported{&mcsv1beta1.ServiceImport{}, &corev1.Service{}, &fabedgev1alpha1.GlobalService{}, nil}
	derived := api.DerivedServiceName(namespace, name)
	var errs []error
	missing := func(err error) bool {
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
		return err != nil
	}
	if missing(m.Get(namespace, name, i.ServiceImport)) {
		i.ServiceImport = nil
	}
	if missing(m.Get(namespace, derived, i.Derived)) {
		i.Derived = nil
	}
	if missing(m.Get(namespace, name, i.Global)) {
		i.Global = nil
	}
	var all discoveryv1.EndpointSliceList
	missing(m.List(&all, client.InNamespace(namespace)))
	for _, s := range all.Items {
		if s.Labels[api.LabelServiceName] == name || s.Labels[api.LabelKubernetesServiceName] == derived {
			i.Slices = append(i.Slices, s)
		}
	}
	slices.SortFunc(i.Slices, func(a, b discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return i, errors.Join(errs...)
}

// Gone returns nil if no object of an imported service is left.
func (m *Member) Gone(namespace, name string) error {
	i, err := m.Imported(namespace, name)
	if err != nil {
		return err
	}
	var left []string
	if i.ServiceImport != nil {
		left = append(left, "ServiceImport")
	}
	if i.Derived != nil {
		left = append(left, "derived Service")
	}
	if i.Global != nil {
		left = append(left, "GlobalService")
	}
	for _, s := range i.Slices {
		left = append(left, "EndpointSlice "+s.Name)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s/%s: left are %s", namespace, name, strings.Join(left, ", "))
	}
	return nil
}

// VIP waits until a service has a ClusterSetIP of the family in this cluster, and returns it.
func (m *Member) VIP(namespace, name string, family corev1.IPFamily) string {
	m.Helper()
	var ip string
	kube.Eventually(m, func() error {
		var imp mcsv1beta1.ServiceImport
		if err := m.Get(namespace, name, &imp); err != nil {
			return err
		}
		for _, ip = range imp.Spec.IPs {
			if FamilyOf(ip) == family {
				return nil
			}
		}
		return fmt.Errorf("%s: %s/%s has the addresses %v", m.Spec.Name, namespace, name, imp.Spec.IPs)
	})
	return ip
}

// ClusterIP returns a Service's cluster IP of the family in this cluster.
func (m *Member) ClusterIP(namespace, name string, family corev1.IPFamily) string {
	m.Helper()
	var svc corev1.Service
	if err := m.Get(namespace, name, &svc); err != nil {
		m.Fatal(err)
	}
	for _, ip := range svc.Spec.ClusterIPs {
		if FamilyOf(ip) == family {
			return ip
		}
	}
	m.Fatalf("%s: Service %s/%s has the addresses %v", m.Spec.Name, namespace, name, svc.Spec.ClusterIPs)
	return ""
}

// ImportSays returns nil if a ServiceImport has the condition with False and a message that contains text.
func (m *Member) ImportSays(namespace, name, kind, text string) error {
	i, err := m.Imported(namespace, name)
	if err != nil || i.ServiceImport == nil {
		return fmt.Errorf("%s: no ServiceImport %s/%s: %w", m.Spec.Name, namespace, name, err)
	}
	if c := Condition(i.ServiceImport.Status.Conditions, kind); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, text) {
		return fmt.Errorf("%s: %s of ServiceImport %s/%s is %+v, want %q", m.Spec.Name, kind, namespace, name, c, text)
	}
	return nil
}

// ExportIs returns nil if a ServiceExport has the condition with that status and reason.
func (m *Member) ExportIs(namespace, name string, kind mcsv1beta1.ServiceExportConditionType, status, reason string) error {
	var export mcsv1beta1.ServiceExport
	if err := m.Get(namespace, name, &export); err != nil {
		return err
	}
	c := Condition(export.Status.Conditions, string(kind))
	if c == nil || string(c.Status) != status || c.Reason != reason {
		return fmt.Errorf("%s: %s of ServiceExport %s/%s is %+v, want %s, %s", m.Spec.Name, kind, namespace, name, c, status, reason)
	}
	return nil
}

// Annotate sets an annotation of a ServiceExport, or removes it if value is nil.
func (m *Member) Annotate(namespace, name, key string, value *string) error {
	e := &mcsv1beta1.ServiceExport{}
	e.Namespace, e.Name = namespace, name
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	if err != nil {
		return err
	}
	return m.Client.Patch(context.Background(), e, client.RawPatch(types.MergePatchType, patch))
}

// HasEvent returns nil if the object has an Event with that reason whose note contains all the words.
func (c *Cluster) HasEvent(kind, namespace, name, reason string, words ...string) error {
	var events eventsv1.EventList
	if err := c.List(&events); err != nil {
		return err
	}
	var seen []string
	for _, e := range events.Items {
		if e.Regarding.Kind != kind || e.Regarding.Namespace != namespace || e.Regarding.Name != name {
			continue
		}
		if e.Reason == reason && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Note, w) }) {
			return nil
		}
		seen = append(seen, e.Reason+": "+e.Note)
	}
	return fmt.Errorf("%s %s/%s has no Event %s with %q, only %q", kind, namespace, name, reason, words, seen)
}

// FamilyOf returns the family of an address.
func FamilyOf(ip string) corev1.IPFamily {
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// NameTaken returns nil if the agent's metric for a taken name has the wanted value.
func (m *Member) NameTaken(want float64) error {
	taken, err := m.Metrics.Sum("clusterset_exporter_name_taken")
	if err == nil && taken != want {
		err = fmt.Errorf("clusterset_exporter_name_taken is %v, want %v", taken, want)
	}
	return err
}
