package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// Attacker holds a stolen credential.
type Attacker struct {
	testing.TB
	Hub       client.Client // with the credential
	Cluster   string        // whose credential it is
	Namespace string        // an existing namespace of the members
	Share     int           // bytes that a shape may write
	Turns     int           // requests that a shape of small changes makes

	// Of the current shape: objects or changes that the hub took and refused, and bytes that it took.
	Written, Refused, Bytes int
	// Why is the hub's last refusal.
	Why string
	// gone is set if somebody removes what is written.
	gone bool
}

// Attack writes one shape.
func (a *Attacker) Attack(s Shape) {
	a.Written, a.Refused, a.Bytes, a.Why = 0, 0, 0, ""
	s.Run(a)
}

// Contested says that the member's agent runs and removes what isn't its own.
func (a *Attacker) Contested() { a.gone = true }

// took counts the hub's answer. It fails the test for an answer that isn't one: the table would show what nobody tried.
func (a *Attacker) took(size int, err error) bool {
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
		a.Fatalf("neither taken nor refused: %v", err)
	}
	return false
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), 300)]
}

// fill writes records until its share is used up. It begins with the first size and goes on to the next when the hub refuses one. An
// ExportedService is written in front of endpoints.
func (a *Attacker) fill(prefix string, sizes []int, record func(name string, size int) map[string]any) {
	if _, ok := record("x", 1)["spec"].(map[string]any)["endpoints"]; ok {
		a.took(0, a.Hub.Create(context.Background(), object(a.service(prefix, nil))))
	}
	for tries := 0; a.Bytes < a.Share && len(sizes) > 0 && tries < 100000; tries++ {
		o := record(fmt.Sprintf("%s-%d", prefix, a.Written), sizes[0])
		packed, err := json.Marshal(o)
		if err != nil {
			a.Fatal(err)
		}
		if !a.took(len(packed), a.Hub.Create(context.Background(), object(o))) {
			if strings.Contains(a.Why, "exceeded quota") {
				return
			}
			sizes = sizes[1:]
		}
	}
}

// flap changes one endpoint of a service that has as many as a GlobalService may have without being written less often.
func (a *Attacker) flap() {
	a.took(0, a.Hub.Create(context.Background(), object(a.service("flap", nil))))
	for r := range 3 {
		o := a.endpoints(fmt.Sprintf("flap-%d", r), "IPv4", 80, func(i int) map[string]any {
			return map[string]any{"addresses": []any{fmt.Sprintf("10.77.%d.%d", r, i+1)}}
		})
		a.took(0, a.Hub.Create(context.Background(), object(o)))
	}
	target := object(a.endpoints("flap-0", "IPv4", 0, nil))
	for i := range a.Turns {
		patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/endpoints/0/addresses/0", "value": "10.78.%d.%d"}]`, i/250%250, i%250+1)
		a.took(len(patch), a.Hub.Patch(context.Background(), target.DeepCopy(), client.RawPatch(types.JSONPatchType, patch)))
	}
}

// flip changes what a heartbeat says about its cluster.
func (a *Attacker) flip() {
	for i := range a.Turns {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(a.Cluster), Name: api.HeartbeatLease}}
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "z%d", %q: "v0.0.%d"}}, "spec": {"renewTime": "2026-01-01T00:00:%02d.%06dZ"}}`,
			api.AnnotationZones, i%2, api.AnnotationAgentVersion, i%2, i/1000%60, i%1000)
		a.took(len(patch), a.Hub.Patch(context.Background(), lease, client.RawPatch(types.MergePatchType, patch)))
	}
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
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(a.Cluster), Name: api.HeartbeatLease}}
	patch := fmt.Appendf(nil, `{"spec": {"holderIdentity": %q}}`, strings.Repeat("x", 1<<20))
	a.took(len(patch), a.Hub.Patch(context.Background(), lease, client.RawPatch(types.MergePatchType, patch)))
}
