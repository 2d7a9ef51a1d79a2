package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/hostile"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// ownGoes is the promise of faults during which a member's own endpoints may be missing for a moment.
const ownGoes = "what the member exports may go and returns; no ClusterSetIP and no other answer changes"

// staysInForce is the promise for a MemberCluster with a value that can't be used.
const staysInForce = "the cluster is drained and undrained, ranks last (Suspect), goes (Expired) and is back, as without the typo; no other answer changes"

// userFaults are what users, administrators and thieves do.
var userFaults = []fault{
	{group: "users", name: "all Services of a member are replaced (kubectl replace --force)", promise: ownGoes, does: func(c *run) {
		c.mayGo(func(e *mcsv1beta1.ServiceExport) bool { return len(e.OwnerReferences) > 0 }) // those of marked Services
		c.replaceByForce(&corev1.ServiceList{})
		c.churn(3)
	}},
	{group: "users", name: "all ServiceExports of a member are replaced (kubectl replace --force)", promise: ownGoes, does: func(c *run) {
		c.mayGo(func(e *mcsv1beta1.ServiceExport) bool { return len(e.OwnerReferences) == 0 })
		c.replaceByForce(&mcsv1beta1.ServiceExportList{})
		c.churn(3)
	}},
	{group: "users", name: "a webhook of the member doesn't answer for 10 s at each write of a ServiceExport", promise: noChange, does: func(c *run) {
		asked, stop := c.hangingWebhook()
		defer stop()
		c.churn(5)
		c.watch(c.between(10*time.Second, 15*time.Second))
		c.until(func() error {
			if asked.Load() > 0 {
				return nil
			}
			return c.touchExport()
		})
		c.touched("the webhook was asked %d times", asked.Load())
	}},
	{group: "users", name: "an administrator's typo in a MemberCluster: cidrs that are no networks, or have host bits", promise: staysInForce, silent: true, does: func(c *run) {
		mistyped := []string{"10.0.0.1/8", "fd00::1/16", "10.300.0.0/16", "10.1.0.0", c.Paths.Network()} // all addresses are in the first two
		c.admitAnyCIDR(mistyped)
		c.until(func() error { return c.complains("spec.cidrs[0]") })
		c.touched("the hub says what it can't use of %q", mistyped)
		c.isDrained()
		c.victim.KillAgent()
		c.fallsSilent()
		c.victim.StartAgent()
		c.until(func() error { return c.Hub.PhaseIs(c.victim.Spec.Name, ready) })
		c.must(c.setCIDRs(nil))
		c.must(c.installCRDs(&c.Hub.Cluster))
	}},
	{group: "backup", name: "the hub is restored from one that is older than a service, and its cluster comes back 25 s later", promise: noChange, does: func(c *run) {
		export := c.anyExport()
		c.aside(export)
		c.must(c.victim.Client.Delete(context.Background(), export.DeepCopy()))
		c.until(func() error { return c.Fleet.Recorded(c.victim.Spec.Name, export.Namespace, export.Name, false) })
		kube.EventuallyWithin(c, random.Converge, c.Check) // or an importer could still be about to delete the import
		restore := c.Hub.BackUp()
		c.recreate(export)
		kube.EventuallyWithin(c, random.Converge, c.Check)
		c.foresee()
		c.prober.expect(c.phases[ready])
		c.victim.KillAgent()
		restore(func() {})
		c.watch(25 * time.Second)
		c.must(c.Fleet.Recorded(c.victim.Spec.Name, export.Namespace, export.Name, false))
		c.touched("the hub lost %s/%s", export.Namespace, export.Name)
		c.victim.StartAgent()
	}},
	{group: "thief", name: "somebody writes hostile records and heartbeats of every shape with a member's credentials", promise: noChange, does: func(c *run) {
		c.Hub.Apply(hostile.Policies(c)...)
		hub, err := client.New(c.victim.OnHub(), client.Options{Scheme: fleet.Scheme})
		c.must(err)
		a := &hostile.Attacker{TB: c, Hub: hub, Cluster: c.victim.Spec.Name, Namespace: "lab", Share: 256 << 10, Turns: 50}
		a.Contested()
		taken, refused := 0, 0
		for _, shape := range hostile.Shapes {
			a.Attack(shape)
			taken, refused = taken+a.Written, refused+a.Refused
		}
		c.churn(5)
		if taken > 0 {
			c.touched("the hub took %d of the thief's %d writes", taken, taken+refused)
		}
	}},
}

// mayGo allows any answer to questions whose answers change when the victim's endpoints are gone, or when these ServiceExports of the victim
// are new ones, which give way to older ones. The slices that extend the victim's own Services may go with these.
func (c *run) mayGo(renewed func(*mcsv1beta1.ServiceExport) bool) {
	c.Helper()
	w := c.look()
	w.Renew(c.victim.Spec.Name, renewed)
	then := c.answersIn(w, c.phases[ready][0])
	var stage []answers
	for i := range c.Servers {
		all := maps.Clone(c.phases[ready][i])
		for q := range differing(c.phases[ready][i], c.phases[expired][i]) {
			all[q] = anyAnswer
		}
		for q := range differing(c.phases[ready][i], then[i]) {
			all[q] = anyAnswer
		}
		for q := range all {
			if i == c.victimServer() && q.qtype == lastResort {
				all[q] = anyAnswer
			}
		}
		stage = append(stage, all)
	}
	c.prober.expect(stage)
}

// replaceByForce deletes the victim's objects of a kind in the namespaces that are asked for, and creates them again as they were.
func (c *run) replaceByForce(list client.ObjectList) {
	c.Helper()
	ctx := context.Background()
	n := 0
	for _, ns := range []string{"shop", "bank"} {
		c.must(c.victim.List(list, client.InNamespace(ns)))
		for _, o := range random.ObjectsOf(list) {
			if len(o.GetOwnerReferences()) > 0 || o.GetLabels()["clusterset.dev/managed-by"] != "" {
				continue
			}
			c.must(c.victim.Client.Delete(ctx, o.DeepCopyObject().(client.Object)))
			c.watch(c.between(0, 500*time.Millisecond))
			c.recreate(o)
			n++
		}
	}
	if n > 0 {
		c.touched("%d objects were replaced", n)
	}
}

// recreate creates an object that was deleted, as it was.
func (c *run) recreate(o client.Object) {
	c.Helper()
	o.SetResourceVersion("")
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Time{})
	c.must(c.victim.Client.Create(context.Background(), o))
}

// hangingWebhook makes the victim's API server ask a webhook about ServiceExports that accepts connections and never answers.
func (c *run) hangingWebhook() (asked *atomic.Int32, stop func()) {
	c.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.must(err)
	asked = &atomic.Int32{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			go func() { // until the API server gives up
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
			}()
		}
	}()
	webhook := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hanging}
webhooks:
  - name: hanging.example.com
    clientConfig: {url: "https://%s/"}
    rules: [{apiGroups: [multicluster.x-k8s.io], apiVersions: ["*"], resources: [serviceexports, serviceexports/status], operations: ["*"]}]
    failurePolicy: Ignore
    sideEffects: None
    timeoutSeconds: 10
    admissionReviewVersions: [v1]
`, listener.Addr())
	c.victim.Apply(webhook)
	return asked, func() {
		c.victim.Remove(webhook)
		_ = listener.Close()
	}
}

// touchExport writes one of the victim's ServiceExports.
func (c *run) touchExport() error {
	change := fmt.Appendf(nil, `{"metadata":{"annotations":{"clusterset-test/stirred":%q}}}`, time.Now().Format(time.RFC3339Nano))
	return c.victim.Client.Patch(context.Background(), c.anyExport(), client.RawPatch(types.MergePatchType, change))
}

// anyExport returns a ServiceExport that a user of the victim made in a namespace that is asked for.
func (c *run) anyExport() *mcsv1beta1.ServiceExport {
	c.Helper()
	var all []*mcsv1beta1.ServiceExport
	for _, ns := range []string{"shop", "bank"} {
		var list mcsv1beta1.ServiceExportList
		c.must(c.victim.List(&list, client.InNamespace(ns)))
		for i := range list.Items {
			if e := &list.Items[i]; len(e.OwnerReferences) == 0 {
				all = append(all, e)
			}
		}
	}
	if len(all) == 0 {
		c.Fatalf("%s has no ServiceExport", c.victim.Spec.Name)
	}
	return all[c.IntN(len(all))]
}

// aside allows any answer for the names of a service.
func (c *run) aside(export *mcsv1beta1.ServiceExport) {
	c.Helper()
	name := export.Name + "." + export.Namespace + "."
	var stage []answers
	for i := range c.Servers {
		all := maps.Clone(c.phases[ready][i])
		for q := range all {
			if strings.HasPrefix(q.name, name) || strings.Contains(q.name, "."+name) {
				all[q] = anyAnswer
			}
		}
		stage = append(stage, all)
	}
	c.prober.expect(stage)
}
