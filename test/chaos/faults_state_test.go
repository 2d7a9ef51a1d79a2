package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/clusterset/clusterset/api"
)

var errNotYet = errors.New("not yet")

// stateFaults affect stored objects, clocks and names.
var stateFaults = []fault{
	{group: "credentials", name: "revoked: the member's account is deleted on the hub; joined again later", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.Hub.Remove(fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: %s, name: %s}}", api.MemberNamespace(c.victim.Spec.Name), api.MemberServiceAccount))
		c.fallsSilent()
		c.rejoinVictim()
	}},
	{group: "credentials", name: "expired; joined again later", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.victim.KillAgent()
		c.must(expireToken(c.victim, c.Hub))
		c.victim.StartAgent()
		c.fallsSilent()
		c.rejoinVictim()
	}},

	{group: "full disk", name: "the hub's etcd is full (NOSPACE) for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		c.fill(&c.Hub.Cluster)
		c.churn(5)
		c.watch(expireAfter + 2*time.Second)
		c.empty(&c.Hub.Cluster)
	}},
	{group: "full disk", name: "the member's etcd is full (NOSPACE)", promise: noChange, does: func(c *run) {
		c.fill(&c.victim.Cluster)
		c.churn(5)
		c.watch(c.between(4*time.Second, 15*time.Second))
		c.empty(&c.victim.Cluster)
	}},

	{group: "clock", name: "the member's steps by an hour, forth and back, as the hub sees it", promise: noChange, silent: true, does: func(c *run) {
		w := places[0].wire(c)
		proxy, err := w.intercept()
		c.must(err)
		var step atomic.Int64
		var seen atomic.Int32
		proxy.Edit(func(r *http.Request) { shiftRenewTime(r, time.Duration(step.Load()), &seen) })
		for _, by := range []time.Duration{time.Hour, -time.Hour, 0, -time.Hour, time.Hour} {
			step.Store(int64(by))
			was := seen.Load()
			c.until(func() error {
				if seen.Load() < was+3 {
					return errNotYet
				}
				return nil
			})
		}
		c.touched("%d heartbeats had another time", seen.Load())
		w.direct()
	}},

	{group: "CRD", name: "upgraded on the hub: a new field in every kind", promise: noChange, does: func(c *run) { c.upgradeCRDs(&c.Hub.Cluster) }},
	{group: "CRD", name: "upgraded in the member: a new field in every kind", promise: noChange, does: func(c *run) { c.upgradeCRDs(&c.victim.Cluster) }},
	{group: "CRD", name: "ExportedService deleted on the hub, with all objects, and installed again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("exportedservices")
	}},
	{group: "CRD", name: "ExportedEndpoints deleted on the hub, with all objects, and installed again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("exportedendpoints")
	}},
	{group: "CRD", name: "MemberCluster deleted on the hub, with all objects; installed and all joined again", promise: noChange, does: func(c *run) {
		c.deleteHubCRD("memberclusters")
		c.Rejoin()
	}},

	{group: "name", name: "a second cluster works with a member's name and credentials", promise: noChange + "; it exports nothing and says so (clusterset_exporter_name_taken)", does: func(c *run) {
		twin := c.victim.Copied()
		defer twin.Stop()
		twin.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}", "{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: twins}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}",
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: shop, name: twins}}")
		twin.StartAgent()
		defer twin.KillAgent()
		c.until(func() error {
			return errors.Join(twin.NameTaken(1), twin.ExportIs("shop", "twins", "Ready", "False", api.ReasonNameTaken))
		})
		c.touched("the second agent said that its name is taken")
		c.churn(5)
		c.watch(c.between(4*time.Second, 10*time.Second))
		c.must(c.Fleet.Recorded(c.victim.Spec.Name, "shop", "twins", false))
	}},
}

// rejoinVictim gives the member new credentials. Its agent reads them from the file without a restart.
func (c *run) rejoinVictim() {
	c.Helper()
	c.must(c.victim.Join(context.Background(), c.Hub, "--rejoin"))
	c.until(func() error { return c.Hub.PhaseIs(c.victim.Spec.Name, ready) })
}

// shiftRenewTime changes the time in a heartbeat, as a cluster with a wrong clock would. The hub sees no other time of a
// member's clock.
func shiftRenewTime(r *http.Request, by time.Duration, seen *atomic.Int32) {
	if r.Body == nil || !strings.Contains(r.URL.Path, "/leases/") {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), r.Header.Get("Content-Type"))
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if lease, ok := object.(*coordinationv1.Lease); known && err == nil && ok && lease.Spec.RenewTime != nil {
		lease.Spec.RenewTime.Time = lease.Spec.RenewTime.Add(by)
		var shifted bytes.Buffer
		if info.Serializer.Encode(lease, &shifted) == nil {
			body = shifted.Bytes()
			seen.Add(1)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}
