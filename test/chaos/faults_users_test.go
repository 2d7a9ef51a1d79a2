package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
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
// are new ones, which give way to older ones.
func (c *run) mayGo(renewed func(*mcsv1beta1.ServiceExport) bool) {
	c.Helper()
	w := c.look()
	w.Renew(c.victim.Spec.Name, renewed)
	now, then, gone := c.phases[ready], c.answersIn(w, c.phases[ready][0]), c.phases[expired]
	c.prober.expect(c.except(func(i int, q question) bool { return now[i][q] != gone[i][q] || now[i][q] != then[i][q] }))
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
			defer func() { _ = conn.Close() }() // when the webhook is gone
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
	c.prober.expect(c.except(func(_ int, q question) bool {
		return strings.HasPrefix(q.name, name) || strings.Contains(q.name, "."+name)
	}))
}

// admitAnyCIDR makes the hub's CRD admit any text as a network, and gives the victim such ones. The schema refuses what people mistype, but a hub
// can have the CRDs of another version.
func (c *run) admitAnyCIDR(mistyped []string) {
	c.Helper()
	c.changeCRD(&c.Hub.Cluster, &c.crdsOf(&c.Hub.Cluster, "memberclusters.")[0], func(properties map[string]apiextensionsv1.JSONSchemaProps) {
		properties["spec"].Properties["cidrs"].Items.Schema = &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr.To(int64(43))}
	})
	c.until(func() error { return c.setCIDRs(mistyped) })
}

// setCIDRs sets the networks in the victim's MemberCluster.
func (c *run) setCIDRs(cidrs []string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"cidrs": cidrs}})
	if err != nil {
		return err
	}
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = c.victim.Spec.Name
	return c.Hub.Client.Patch(context.Background(), mc, client.RawPatch(types.MergePatchType, patch))
}

// complains returns nil once the hub says that it can't use a field of the victim's MemberCluster.
func (c *run) complains(about string) error {
	var mc clustersetv1alpha1.MemberCluster
	if err := c.Hub.Get("", c.victim.Spec.Name, &mc); err != nil {
		return err
	}
	if valid := fleettest.Condition(mc.Status.Conditions, clustersetv1alpha1.ConditionValid); valid == nil || !strings.Contains(valid.Message, about) {
		return fmt.Errorf("MemberCluster %s: the condition %s is %v; want it to name %s", mc.Name, clustersetv1alpha1.ConditionValid, valid, about)
	}
	return nil
}

// isDrained drains and undrains the victim, and waits until each answer has changed that must, everywhere.
func (c *run) isDrained() {
	c.Helper()
	c.drain(true)
	c.drain(false)
}

// drain drains or undrains the victim, and waits until each answer has changed that must, everywhere.
func (c *run) drain(drained bool) {
	c.Helper()
	before, after := c.phases[ready], c.phases[suspected] // a drained cluster ranks as a Suspect one does
	if !drained {
		before, after = after, before
	}
	c.prober.expect(before, after)
	c.must(c.Drain(slices.Index(c.Members, c.victim), drained))
	c.prober.look(1)
	c.until(func() error { return c.prober.unseen(1, -1) })
	c.touched("%d answers changed elsewhere with the drain of %s, or its end", c.shows(ready, suspected), c.victim.Spec.Name)
}

// communityFaults are changes of communities. The hub enforces communities during all other faults, too.
var communityFaults = []fault{
	{group: "communities", name: "a member is taken out of those of the others, and put back", promise: "what it exports goes from the others, what they export goes from it, and both are back; no other answer changes", does: func(c *run) {
		apart := map[string][]string{c.victim.Spec.Name: {"apart"}}
		stage := c.staying(func(of *random.View) { of.In = apart[of.Name] })
		c.prober.expect(stage)
		c.become(apart)
		kube.EventuallyWithin(c, random.Converge, c.Check)
		c.changedIn(stage)
		c.churn(5)
		c.become(map[string][]string{c.victim.Spec.Name: c.victim.Spec.Communities})
	}},
}

// become puts clusters into communities.
func (c *run) become(in map[string][]string) {
	c.Helper()
	for i, m := range c.Members {
		if of, ok := in[m.Spec.Name]; ok {
			c.must(c.Put(i, of))
		}
	}
}

// anyAnswer is a stage's answer to a question whose answer is changing part by part. It allows any answer.
const anyAnswer = "*"

// changedIn records how many answers a stage changes in each cluster.
func (c *run) changedIn(stage []answers) {
	for i, s := range c.Servers {
		if n := len(differing(c.phases[ready][i], stage[i])); n > 0 {
			c.touched("%d answers changed at %s", n, s.Member.Spec.Name)
		}
	}
}

// except returns the current answers, with anyAnswer in place of those that it picks by the server and the question.
func (c *run) except(pick func(server int, q question) bool) (stage []answers) {
	for i, now := range c.phases[ready] {
		all := maps.Clone(now)
		for q := range all {
			if pick(i, q) {
				all[q] = anyAnswer
			}
		}
		stage = append(stage, all)
	}
	return stage
}

// staying returns the current answers except those that would be different if the victim were changed like that.
func (c *run) staying(change func(victim *random.View)) []answers {
	c.Helper()
	w := c.look()
	for _, cluster := range w.Clusters {
		if cluster.Name == c.victim.Spec.Name {
			change(cluster)
		}
	}
	then := c.answersIn(w, c.phases[ready][0])
	return c.except(func(i int, q question) bool { return c.phases[ready][i][q] != then[i][q] })
}

// unchanged lets users do a few things, waits until all is right, and fails the test if an answer changed meanwhile.
func (c *run) unchanged(what string) {
	c.Helper()
	c.victim = c.Members[c.IntN(len(c.Members))]
	c.churn(5)
	c.mend()
	c.watch(c.round())
	counts := c.prober.collect()
	c.Logf("%s: %d questions", what, counts.asked)
	if counts.bad() > 0 {
		c.Errorf("%s: %d wrong, %d missing, %d late:\n%s", what, counts.wrong, counts.missing, counts.late, strings.Join(counts.examples, "\n"))
	}
}

// networkFaults are those of two networks of two clusters each. While one cluster of each is out of use, each network is left with one.
var networkFaults = []fault{
	{group: "networks", apart: true, name: "a member is put into a network of its own, and taken back, while hub process and an agent are killed", promise: "it and the others use each other's external addresses, or nothing, and are back; no other answer changes", does: func(c *run) {
		victim := c.victimServer()
		stage := c.staying(func(of *random.View) { of.PutInto(victim, random.Apart) })
		c.prober.expect(stage)
		c.must(c.PutInto(victim, random.Apart))
		c.Hub.Process.Kill()
		c.victim.Agent.Kill()
		c.must(c.Hub.Process.Start(c.Context()))
		c.must(c.victim.Agent.Start(c.Context()))
		kube.EventuallyWithin(c, random.Converge, c.Check)
		c.changedIn(stage)
		c.churn(5)
		c.must(c.PutInto(victim, c.in.networks[victim]))
	}},
	{group: "networks", apart: true, name: "of each of two networks, one cluster is drained while one of the other dies (SIGKILL of its agent, for long)", promise: "the clusters' endpoints rank last (drained, Suspect), go (Expired) and are back, in both networks; no name leads to a pod of the other network, and each leads somewhere while anything is ready; no other answer changes", silent: true, does: func(c *run) {
		pair := c.oneOfEach()
		for i, victim := range pair {
			c.victim = pair[1-i]
			c.foresee()
			c.drain(true)

			c.victim = victim
			c.foresee()
			if c.shows(ready, suspected) == 0 || c.shows(suspected, expired) == 0 {
				c.Fatalf("no answer changes elsewhere when %s is silent", victim.Spec.Name)
			}
			c.isDrained()
			c.victim.KillAgent()
			c.fallsSilent()
			c.victim.StartAgent()
			c.mend()

			c.victim = pair[1-i]
			c.foresee()
			c.drain(false)
		}
	}},
}

// oneOfEach returns a random cluster of each network.
func (c *run) oneOfEach() (all []*fleettest.Member) {
	for _, network := range slices.Compact(slices.Clone(c.in.networks)) {
		of := slices.DeleteFunc(slices.Clone(c.Members), func(m *fleettest.Member) bool { return c.in.networks[slices.Index(c.Members, m)] != network })
		all = append(all, of[c.IntN(len(of))])
	}
	return all
}
