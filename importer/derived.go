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

// applyDerived makes the derived Service what it should be, or deletes it where there should be none. It returns the
// Service as it is then, and whether this cluster can't have one for want of the exports' families.
//
// It has no owner. It is there before the ServiceImport, which would else be written twice, without its addresses and with them. And
// should someone delete that, the addresses stay for the one that takes its place.
func (r *reconciler) applyDerived(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) (_ *corev1.Service, unsupported bool, _ error) {
	want := out.Derived
	if want == nil {
		if cur.Derived == nil {
			return nil, false, nil
		}
		return nil, false, r.local.remove(ctx, cur.Derived)
	}
	change := func(s *corev1.Service) {
		s.Labels = labels.Merge(s.Labels, want.Labels, nil)
		s.Annotations = labels.Merge(s.Annotations, want.Annotations, nil)
		s.OwnerReferences = nil
		had := s.Spec
		want.Spec.DeepCopyInto(&s.Spec)
		if in.Derived == nil && had.ClusterIP != "" {
			// We made it a moment ago and the cache is behind. What want asks for must not replace what was given.
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
		if !refusesFamily(err) {
			return nil, false, err
		}
		r.families.remember(choice.Families)
	}
	return nil, true, nil
}

// refusesFamily says whether the API server refused a Service because the cluster has no addresses of the family.
func refusesFamily(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, "spec.ipFamil") {
			return true
		}
	}
	return false
}

// familyMemory remembers which families this cluster has no addresses of, so that not every event of every such service
// asks the API server again. There is no API that says it. It forgets, because a cluster can become dual-stack.
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
