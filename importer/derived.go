package importer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/labels"
)

// applyDerived creates or updates the derived Service. It returns the resulting Service, nil if none is wanted, and whether this cluster
// can't have one because it lacks the exports' IP families.
//
// The derived Service has no owner. It is created before the ServiceImport, which would otherwise be written twice, first
// without addresses. If someone deletes the ServiceImport, the addresses stay for its replacement.
func (r *reconciler) applyDerived(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) (_ *corev1.Service, unsupported bool, _ error) {
	want := out.Derived
	if want == nil {
		return nil, false, nil
	}
	change := func(s *corev1.Service) {
		s.Labels = labels.Merge(s.Labels, want.Labels, nil)
		s.Annotations = labels.Merge(s.Annotations, want.Annotations, nil)
		s.OwnerReferences = nil
		had := s.Spec
		want.Spec.DeepCopyInto(&s.Spec)
		if in.Derived == nil && had.ClusterIP != "" {
			// We created it a moment ago and the cache is behind. Keep the addresses that were allocated.
			s.Spec.ClusterIP, s.Spec.ClusterIPs = had.ClusterIP, had.ClusterIPs
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = had.IPFamilies, had.IPFamilyPolicy
		}
	}
	meta := metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}
	if cur.Derived != nil {
		svc, err := ensure(ctx, r.local, existing(cur.Derived), nil, change)
		if err != nil {
			return in.Derived, false, err
		}
		return svc, false, nil
	}
	for _, choice := range desired.FamilyChoices(out.Resolved.IPFamilies) {
		if r.families.lacksAny(choice.Families) {
			continue
		}
		choice.ApplyTo(&want.Spec)
		svc, err := ensure(ctx, r.local, nil, &corev1.Service{ObjectMeta: meta}, change)
		if err == nil {
			return svc, false, nil
		}
		if !refusesField(err, "spec.ipFamil") { // because the cluster lacks the IP family
			return nil, false, err
		}
		r.families.remember(choice.Families)
	}
	return nil, true, nil
}

// refusesField reports whether the API server rejected an object because of what is in a field. The field may end with any characters.
func refusesField(err error, field string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, field) {
			return true
		}
	}
	return false
}

// familyMemory remembers which IP families this cluster lacks, so that not every event of such a service asks the API server
// again. No API says which families a cluster has. It forgets after a while, because a cluster can become dual-stack.
type familyMemory struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	lacks map[corev1.IPFamily]time.Time
}

const familyMemoryFor = 10 * time.Minute

func newFamilyMemory(c clock.PassiveClock) *familyMemory {
	return &familyMemory{clock: c, lacks: map[corev1.IPFamily]time.Time{}}
}

func (m *familyMemory) lacksAny(families []corev1.IPFamily) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range families {
		if at, ok := m.lacks[f]; ok && m.clock.Since(at) < familyMemoryFor {
			return true
		}
	}
	return false
}

func (m *familyMemory) remember(families []corev1.IPFamily) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range families {
		m.lacks[f] = m.clock.Now()
	}
}
