package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// well waits until every cluster has renewed its Lease since a time and is Ready, and every change is answered. It returns how long each took.
func (s *storms) well(ctx context.Context, since time.Time) (string, error) {
	all := ctx
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var readyAfter, answeredAfter time.Duration
	var last error
	for readyAfter == 0 || answeredAfter == 0 {
		ready, err := s.ready(ctx, since)
		if readyAfter == 0 && ready {
			readyAfter = time.Since(since)
		}
		answered, err2 := s.answered(ctx)
		if answeredAfter == 0 && answered {
			answeredAfter = time.Since(since)
		}
		last = errors.Join(err, err2)
		if ctx.Err() == nil && pause(ctx, pollEvery) == nil {
			continue
		}
		if stopped := context.Cause(all); stopped != nil {
			return "", stopped
		}
		s.wrong = append(s.wrong, fmt.Errorf("not all is well after %s: Ready %v, answered %v (%v)", s.limit, readyAfter > 0, answeredAfter > 0, last)) //nolint:errorlint // it may be nil
		return fmt.Sprintf("not well after %s: %s", s.limit, s.missing(all, since)), nil
	}
	if s.storms && max(readyAfter, answeredAfter) > stormLimit {
		s.wrong = append(s.wrong, fmt.Errorf("all Ready after %s, all answered after %s, want both within %s", round(readyAfter), round(answeredAfter), stormLimit))
	}
	return fmt.Sprintf("all Ready after %s, all answered after %s", round(readyAfter), round(answeredAfter)), nil
}

func (s *storms) ready(ctx context.Context, since time.Time) (bool, error) {
	silent, unready, err := s.notReady(ctx, since)
	return silent+unready == 0, err
}

// notReady returns how many clusters, near included, haven't renewed their Leases since a time, and how many aren't Ready.
func (s *storms) notReady(ctx context.Context, since time.Time) (silent, unready int, err error) {
	silent, unready = len(s.agents)+1, len(s.agents)+1
	var leases coordinationv1.LeaseList
	var members clustersetv1alpha1.MemberClusterList
	if err := errors.Join(s.hub.Client.List(ctx, &leases, client.HasLabels{api.LabelCluster}), s.hub.Client.List(ctx, &members)); err != nil {
		return silent, unready, err
	}
	for i := range leases.Items {
		if at := leases.Items[i].Spec.RenewTime; at != nil && at.After(since) {
			silent--
		}
	}
	for i := range members.Items {
		if members.Items[i].Status.Phase == clustersetv1alpha1.MemberReady {
			unready--
		}
	}
	return silent, unready, nil
}

func (s *storms) missing(ctx context.Context, since time.Time) string {
	silent, unready, err := s.notReady(ctx, since)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d clusters silent, %d not Ready", silent, unready)
}

// answered reports whether the records on the hub are right, and whether near answers those of the first clusters.
func (s *storms) answered(ctx context.Context) (bool, error) {
	var records clustersetv1alpha1.ExportedEndpointsList
	if err := s.hub.Client.List(ctx, &records); err != nil {
		return false, err
	}
	right := 0
	for i := range records.Items {
		r := &records.Items[i].Spec
		if s.addresses[client.ObjectKey{Namespace: r.ServiceNamespace, Name: r.ServiceName}] == r.Endpoints[0].Addresses[0] {
			right++
		}
	}
	if right < len(s.addresses) {
		return false, nil
	}
	for _, a := range s.agents[:min(answeredOf, len(s.agents))] {
		for n := range s.sizes.services {
			key := s.key(a, n)
			answer, err := s.dig(key.Name + "." + key.Namespace + ".svc.clusterset.local.")
			if err != nil || answer != s.addresses[key] {
				return false, err
			}
		}
	}
	return true, nil
}

func (s *storms) result(what string, t tally, well string) {
	s.row(what, "", "", "", strings.TrimSuffix(t.String()+"; "+well, "; "))
}

// compare adds a row that says how many times the requests of a quiet start these are.
func (s *storms) compare(what string, t tally, well string) {
	s.result(what, t, strings.TrimPrefix(fmt.Sprintf("%s; %.1f times the requests of a quiet start, busiest second %.1f times",
		well, float64(t.total())/float64(max(1, s.quiet.total())), float64(t.busiest())/float64(max(1, s.quiet.busiest()))), "; "))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// tally is how many requests of each kind the hub has answered in each second.
type tally []map[string]int

func (t tally) total() (n int) {
	for _, second := range t {
		n += sum(second)
	}
	return n
}

// taken returns how many weren't refused.
func (t tally) taken() (n int) {
	for _, second := range t {
		for kind, requests := range second {
			if !strings.Contains(kind, "(") {
				n += requests
			}
		}
	}
	return n
}

// busiest returns the most requests in a second.
func (t tally) busiest() (n int) {
	for _, second := range t {
		n = max(n, sum(second))
	}
	return n
}

func sum(of map[string]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}

func (t tally) String() string {
	all, most := map[string]int{}, map[string]int{}
	for _, second := range t {
		for kind, n := range second {
			all[kind] += n
			most[kind] = max(most[kind], n)
		}
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		kinds = append(kinds, fmt.Sprintf("%s: %d, %d/s", kind, all[kind], most[kind]))
	}
	return fmt.Sprintf("%d requests in %d s, at most %d/s: %s", t.total(), len(t), t.busiest(), strings.Join(kinds, "; "))
}
