package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Attacker holds a stolen credential.
type Attacker struct {
	testing.TB
	Hub       client.Client // with the credential
	Cluster   string        // whose credential it is
	Namespace string        // an existing namespace of the members
	Share     int           // bytes that a shape may write
	Turns     int           // requests that a shape of small changes makes
	Pace      *rate.Limiter // of its requests; nil for as fast as the hub takes them

	// Of the current shape: objects or changes that the hub took and refused, and bytes that it took.
	Written, Refused, Bytes int
	// Filled means that the hub took all that the shape has: its share of bytes, as many records as a member may have, or all its changes.
	Filled bool
	// Why is the hub's last refusal.
	Why string
	// gone is set if somebody removes what is written.
	gone bool
	mu   sync.Mutex
}

// Attack writes one shape.
func (a *Attacker) Attack(s Shape) {
	a.Written, a.Refused, a.Bytes, a.Filled, a.Why = 0, 0, 0, false, ""
	s.Run(a)
}

// Contested says that the member's agent runs and removes what isn't its own.
func (a *Attacker) Contested() { a.gone = true }

// pace waits until the next request may be made.
func (a *Attacker) pace() {
	if a.Pace != nil {
		_ = a.Pace.Wait(context.Background()) // only a context ends it
	}
}

// took counts the hub's answer. It fails the test for an answer that isn't one: the table would show what nobody tried.
func (a *Attacker) took(size int, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.Written++
		a.Bytes += size
		return true
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsRequestEntityTooLargeError(err), apierrors.IsBadRequest(err), apierrors.IsTooManyRequests(err):
		a.Refused++
		a.Why = firstLine(err)
	case a.gone && (apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)):
	default:
		a.Errorf("neither taken nor refused: %v", err)
	}
	return false
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), 300)]
}

const (
	// maxRecords is how many records of a kind a shape writes: nearly as many ExportedServices as a member may have.
	maxRecords = 4900
	// perService is how many ExportedEndpoints a shape writes of each service, unless it says something else.
	perService = 100
	// hands is how many requests the attacker makes at a time.
	hands = 8
)

// filling is how a shape fills the hub with records.
type filling struct {
	prefix string
	sizes  []int // of what a record has too much of, the largest first; the hub is filled with the first that it takes
	// service and endpoints make the n-th record. One of them is set: there is a plain ExportedService in front of every so many endpoints.
	service   func(name string, size int) map[string]any
	endpoints func(service, name string, n, size int) map[string]any
	per       int // ExportedEndpoints of a service
}

// fill writes records until its share is used up, or a member may have no more.
func (a *Attacker) fill(f filling) {
	f.per = cmp.Or(f.per, perService)
	first := 0
	for ; len(f.sizes) > 0 && !a.write(f, first); first++ {
		f.sizes = f.sizes[1:]
	}
	if len(f.sizes) == 0 {
		return
	}
	var next atomic.Int64
	next.Store(int64(first))
	var all sync.WaitGroup
	for range hands {
		all.Go(func() {
			for !a.full(f) && !a.Failed() {
				if !a.write(f, int(next.Add(1))) && !a.gone {
					return
				}
			}
		})
	}
	all.Wait()
	a.Filled = a.full(f)
}

func (a *Attacker) full(f filling) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := maxRecords
	if f.endpoints != nil {
		most = min(maxRecords*(f.per+1), 9*maxRecords)
	}
	return a.Bytes >= a.Share || a.Written >= most
}

// write writes the n-th record.
func (a *Attacker) write(f filling, n int) bool {
	a.pace()
	name := fmt.Sprintf("%s-%d", f.prefix, n)
	var record map[string]any
	if f.service != nil {
		record = f.service(name, f.sizes[0])
	} else {
		service := fmt.Sprintf("%s-%d", f.prefix, n/f.per)
		if n%f.per == 0 {
			a.took(0, a.Hub.Create(context.Background(), object(a.service(service, nil))))
		}
		record = f.endpoints(service, name, n, f.sizes[0])
	}
	packed, err := json.Marshal(record)
	if err != nil {
		a.Error(err)
		return false
	}
	return a.took(len(packed), a.Hub.Create(context.Background(), object(record)))
}

// flap changes one endpoint of a service that has as many as a GlobalService may have without being written less often.
func (a *Attacker) flap() {
	a.took(0, a.Hub.Create(context.Background(), object(a.service("flap", nil))))
	for r := range 3 {
		o := a.endpoints("flap", fmt.Sprint("flap-", r), "IPv4", 80, func(i int) map[string]any {
			return map[string]any{"addresses": []any{fmt.Sprintf("10.77.%d.%d", r, i+1)}}
		})
		a.took(0, a.Hub.Create(context.Background(), object(o)))
	}
	target := object(a.endpoints("flap", "flap-0", "IPv4", 0, nil))
	for i := range a.Turns {
		a.pace()
		patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/endpoints/0/addresses/0", "value": "10.78.%d.%d"}]`, i/250%250, i%250+1)
		a.took(len(patch), a.Hub.Patch(context.Background(), target.DeepCopy(), client.RawPatch(types.JSONPatchType, patch)))
	}
	a.Filled = a.Written >= a.Turns
}

// flip changes what its report says about its cluster, and the addresses at which others are to measure whether they reach it.
func (a *Attacker) flip(beacons func(i int) []string) {
	report := &clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(a.Cluster), Name: clustersetv1alpha1.MemberReportName}}
	for i := range a.Turns {
		a.pace()
		if err := a.Hub.Get(context.Background(), client.ObjectKeyFromObject(report), report); err != nil {
			a.Errorf("get the report of %s: %v", a.Cluster, err)
			return
		}
		report.Spec = clustersetv1alpha1.MemberReportSpec{AgentVersion: fmt.Sprint("v0.0.", i%2), Zones: []string{fmt.Sprint("z", i%2)}, Beacons: beacons(i)}
		a.took(200, a.Hub.Update(context.Background(), report))
	}
	a.Filled = a.Written >= a.Turns
}

// Beat renews the heartbeat, so that the cluster isn't Expired while its agent is gone.
func (a *Attacker) Beat() {
	err := a.lease(func(s *coordinationv1.LeaseSpec) { s.RenewTime = ptr.To(metav1.NowMicro()) })
	if err != nil {
		a.Errorf("renew the heartbeat of %s: %v", a.Cluster, err)
	}
}

// lease changes the cluster's Lease, which a heartbeat may change meanwhile.
func (a *Attacker) lease(change func(*coordinationv1.LeaseSpec)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease := &coordinationv1.Lease{}
		if err := a.Hub.Get(context.Background(), client.ObjectKey{Namespace: api.MemberNamespace(a.Cluster), Name: api.HeartbeatLease}, lease); err != nil {
			return err
		}
		change(&lease.Spec)
		return a.Hub.Update(context.Background(), lease)
	})
}

// leases tries to fill the hub with Leases.
func (a *Attacker) leases() {
	for i := range 20 {
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(a.Cluster), Name: fmt.Sprintf("more-%d", i)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(strings.Repeat("x", 1<<20))},
		}
		a.took(1<<20, a.Hub.Create(context.Background(), lease))
	}
	a.took(1<<20, a.lease(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To(strings.Repeat("x", 1<<20)) }))
}
