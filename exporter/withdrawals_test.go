package exporter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Withdrawn records go after a day, and the oldest beyond a thousand. Others stay. Rule C6 of docs/spec/control-plane.md.
func TestWithdrawnRecordsGo(t *testing.T) {
	aged := func(name string, age time.Duration, withdrawn bool) *clustersetv1alpha1.ExportedService {
		s := &clustersetv1alpha1.ExportedService{Spec: clustersetv1alpha1.ExportedServiceSpec{Withdrawn: withdrawn, Revision: epoch.Add(-age).UnixMilli()}}
		s.Name = name
		return s
	}
	all := []*clustersetv1alpha1.ExportedService{
		aged("yesterday", 25*time.Hour, true), aged("today", 23*time.Hour, true), aged("exported", 1000*time.Hour, false),
	}
	gone := func() (names []string) {
		for _, s := range expired(all, epoch.Time) {
			names = append(names, s.Name)
		}
		return names
	}
	if got := gone(); !slices.Equal(got, []string{"yesterday"}) {
		t.Errorf("%v are deleted", got)
	}
	for i := range mostWithdrawn + 1 {
		all = append(all, aged(fmt.Sprint(i), time.Duration(i)*time.Second, true))
	}
	if got := gone(); !slices.Equal(got, []string{"yesterday", "today", fmt.Sprint(mostWithdrawn)}) {
		t.Errorf("of too many, %v are deleted", got)
	}
}
