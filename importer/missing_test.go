package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door/store"
	"github.com/clusterset/clusterset/test/records"
	"github.com/clusterset/clusterset/test/script"
)

// TestMissing runs the scripts of testdata/missing.txtar: what an importer does with what the hub no longer has. Rules C40, C41, C42, C43, C44, C45 and C47 of
// docs/spec/control-plane.md. Each script is about the service shop/web, in cluster "here", which begins with the MemberCluster of each
// cluster that a script names. A line is a command:
//
//	export shanghai 10.2.0.1 10.2.0.2   writes an export with a record of endpoints, and the cluster's heartbeat
//	ports shanghai -:80 metrics:9090    changes the ports of an export and its endpoints; - is no name
//	endpoints shanghai/1 10.2.0.3       writes another record of endpoints; none: the record is empty
//	withdraw shanghai[/1] [-2h]         un-exports it, or one record of endpoints, as its exporter does; its clock is wrong by this much
//	lose shanghai[/1]                   deletes a record: somebody does, or the hub is restored, or lags
//	phase shanghai Expired              the hub process changes its phase
//	member shanghai communities=a,b cidrs=10.0.0.0/8 left lost joined forgotten
//	hub away|back|unknown               the hub doesn't answer; answers; doesn't know this cluster
//	limit 0                             so many services are imported from one cluster (--max-services)
//	restart [away]                      the agent restarts; away: and can't read the hub
//	advance 15s                         time goes on, and the importer does what it has to
//	expect shanghai=10.2.0.1 beijing=   which endpoints are imported. A cluster with none exports the service without endpoints
//	expect nothing                      the service is gone
//	unconfirmed shanghai                of whose parts the ServiceImport says that the hub has no record
//	copy shanghai gone                  somebody deletes the copy of its MemberCluster here
//	until 20s 40s <expectation>         this isn't so until the first time, and is so before the second
//	served shanghai=80,9090             by which ports' endpoints, by their names here
//	objects same                        the objects are as after the last "objects", but for metadata
func TestMissing(t *testing.T) {
	script.Run(t, "testdata/missing.txtar", func(t *testing.T) map[string]script.Command {
		s := newMissing(t)
		commands := map[string]script.Command{}
		for _, name := range strings.Fields("export endpoints ports withdraw lose phase member copy hub limit restart advance until expect unconfirmed served objects") {
			commands[name] = func(args ...string) error { s.run(name, args); return nil }
		}
		return commands
	})
}

type missing struct {
	*rig
	t       *testing.T
	members map[string]int
	again   time.Duration
	before  string
}

// askingWeb is a Service of the member that asks for endpoints of other clusters. The member doesn't export it.
const askingWeb = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {clusterset.dev/extend: "true"}}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
`

func newMissing(t *testing.T) *missing {
	s := &missing{rig: newRig(Options{DataPath: desired.DataPathPods}), t: t, members: map[string]int{}}
	s.start()
	s.here.put(s.copyOf("here"))
	for _, o := range records.Decode(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {clusterset.dev/extend: allowed}}\n---\n"+strings.Replace(askingWeb, "spec: {", "spec: {ipFamilies: [IPv4], ", 1)) {
		s.here.put(o)
	}
	return s
}

// start starts the importer's process.
func (s *missing) start() {
	s.rig.start()
	s.known.state = store.State{Phase: store.Live, Since: s.clock.Now()}
}

// copyOf returns the copy of a MemberCluster that the importer keeps.
func (s *missing) copyOf(cluster string) *clustersetv1alpha1.MemberCluster {
	m := memberAt(cluster, "zone-1")
	m.Labels = desired.Labels()
	return m
}

func (s *missing) member(name string) int {
	if s.members[name] == 0 {
		s.members[name] = len(s.members) + 1
		m := memberAt(name, "zone-1")
		s.setPhase(m, m.Status.Phase)
		s.hub.put(m)
		s.here.put(s.copyOf(name))
	}
	return s.members[name]
}

func (s *missing) setPhase(m *clustersetv1alpha1.MemberCluster, phase clustersetv1alpha1.MemberClusterPhase) {
	ready := metav1.ConditionTrue
	if phase != clustersetv1alpha1.MemberReady {
		ready = metav1.ConditionFalse
	}
	m.Status.Phase = phase
	m.Status.Conditions = []metav1.Condition{{Type: clustersetv1alpha1.ConditionReady, Status: ready, LastTransitionTime: metav1.NewTime(s.clock.Now())}}
}

func (s *missing) run(command string, args []string) {
	s.t.Helper()
	switch command {
	case "export":
		n := s.member(args[0])
		svc := exportedBy(args[0], mcsv1beta1.ClusterSetIP, n)
		svc.Spec.Revision = s.clock.Now().UnixMilli()
		s.hub.put(svc)
		s.hub.put(s.endpoints(args[0]+"/0", args[1:]))
	case "endpoints":
		s.hub.put(s.endpoints(args[0], args[1:]))
	case "ports":
		s.ports(args[0], args[1:])
	case "withdraw":
		s.withdraw(args)
	case "lose":
		s.lose(args[0])
	case "phase":
		m := &clustersetv1alpha1.MemberCluster{}
		s.must(s.hub.Get(s.t.Context(), client.ObjectKey{Name: args[0]}, m))
		s.setPhase(m, clustersetv1alpha1.MemberClusterPhase(args[1]))
		s.hub.put(m)
	case "copy":
		s.must(s.here.Delete(s.t.Context(), s.copyOf(args[0])))
	case "member":
		s.changeMember(args[0], args[1:])
	case "hub":
		s.changeHub(args[0])
	case "limit":
		_, err := fmt.Sscan(args[0], &s.options.MaxServices)
		s.must(err)
	case "restart":
		s.start()
		s.known.unread = len(args) > 0
	case "advance":
		s.advance(s.duration(args[0]))
	case "until":
		s.until(s.duration(args[0]), s.duration(args[1]), strings.Join(args[2:], " "))
	case "expect":
		s.settle()
		if is, want := s.imported(), strings.Join(args, " "); is != want {
			s.fail("imported are %s", is)
		}
	case "unconfirmed":
		s.settle()
		said := ""
		if cur, _, err := s.gatherLocal(s.t.Context(), web); err == nil && cur.ServiceImport != nil {
			if c := meta.FindStatusCondition(cur.ServiceImport.Status.Conditions, api.ConditionConfirmed); c != nil {
				said, _, _ = strings.Cut(strings.TrimPrefix(c.Message, "the hub has no record of the exports of "), ", which")
			}
		}
		if want := strings.Join(args, ", "); said != want {
			s.fail("unconfirmed are %q", said)
		}
	case "served":
		s.settle()
		if is, want := s.served(), strings.Join(args, " "); is != want {
			s.fail("served are %s", is)
		}
	case "objects":
		s.settle()
		now := s.content()
		if len(args) > 0 && now != s.before {
			s.fail("objects were\n%s\nare\n%s", s.before, now)
		}
		s.before = now
	}
	if command == "advance" || command == "until" {
		return
	}
	s.settle()
}

func (s *missing) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf(format, args...)
}

func (s *missing) must(err error) {
	s.t.Helper()
	if err != nil {
		s.fail("%v", err)
	}
}

func (s *missing) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	s.must(err)
	return d
}

func (s *missing) endpoints(record string, addresses []string) *clustersetv1alpha1.ExportedEndpoints {
	cluster, n, _ := strings.Cut(record, "/")
	e := endpointsOf(cluster, s.member(cluster), 0, 1)
	e.Name = api.ExportedEndpointsName("shop", "web", "web-"+n, 0)
	one := e.Spec.Endpoints[0]
	e.Spec.Endpoints = nil
	for _, address := range addresses {
		one.Addresses = []string{address}
		e.Spec.Endpoints = append(e.Spec.Endpoints, *one.DeepCopy())
	}
	return e
}

func (s *missing) ports(cluster string, ports []string) {
	svc := exportedBy(cluster, mcsv1beta1.ClusterSetIP, s.member(cluster))
	e := &clustersetv1alpha1.ExportedEndpoints{}
	s.must(s.hub.Get(s.t.Context(), client.ObjectKeyFromObject(endpointsOf(cluster, 0, 0, 0)), e))
	svc.Spec.Ports, e.Spec.Ports, svc.Spec.Revision = nil, nil, s.clock.Now().UnixMilli()
	for _, p := range ports {
		name, number, _ := strings.Cut(p, ":")
		name = strings.TrimPrefix(name, "-")
		var port int32
		_, err := fmt.Sscan(number, &port)
		s.must(err)
		svc.Spec.Ports = append(svc.Spec.Ports, clustersetv1alpha1.ServicePort{Name: name, Port: port, Protocol: corev1.ProtocolTCP})
		e.Spec.Ports = append(e.Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &name, Port: &port, Protocol: new(corev1.ProtocolTCP)})
	}
	s.hub.put(svc)
	s.hub.put(e)
}

// withdraw withdraws an export, or takes one record of endpoints out of it.
func (s *missing) withdraw(args []string) {
	cluster, n, one := strings.Cut(args[0], "/")
	svc := exportedBy(cluster, mcsv1beta1.ClusterSetIP, s.member(cluster))
	svc.Spec.Revision = s.clock.Now().UnixMilli()
	for _, wrong := range args[1:] {
		svc.Spec.Revision += s.duration(wrong).Milliseconds()
	}
	if one {
		svc.Spec.Endpoints = slices.DeleteFunc(svc.Spec.Endpoints, func(suffix string) bool { return suffix == suffixOf("web-"+n) })
	} else {
		svc.Spec = clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web", Type: svc.Spec.Type, ExportedAt: svc.Spec.ExportedAt, Revision: svc.Spec.Revision, Withdrawn: true,
		}
	}
	s.hub.put(svc)
	for _, o := range s.records(cluster) {
		e, is := o.(*clustersetv1alpha1.ExportedEndpoints)
		if is && (!one || e.Name == s.endpoints(args[0], nil).Name) {
			s.must(s.hub.Delete(s.t.Context(), o))
		}
	}
}

// lose deletes an export with its endpoints, or one record of endpoints.
func (s *missing) lose(record string) {
	cluster, _, one := strings.Cut(record, "/")
	for _, o := range s.records(cluster) {
		if !one || o.GetName() == s.endpoints(record, nil).Name {
			s.must(s.hub.Delete(s.t.Context(), o))
		}
	}
}

// records returns a cluster's records on the hub.
func (s *missing) records(cluster string) (all []client.Object) {
	for _, o := range s.hub.all() {
		if o.GetNamespace() == api.MemberNamespace(cluster) {
			all = append(all, o)
		}
	}
	return all
}

func (s *missing) changeMember(name string, how []string) {
	if name != "here" {
		s.member(name)
	}
	m := memberAt(name, "zone-1")
	_ = s.hub.Get(s.t.Context(), client.ObjectKey{Name: name}, m)
	for _, what := range how {
		key, value, _ := strings.Cut(what, "=")
		switch key {
		case "communities":
			m.Spec.Communities = strings.Split(value, ",")
		case "cidrs":
			m.Spec.CIDRs = strings.Split(value, ",")
		case "left":
			m.SetLeft(s.clock.Now())
		case "forgotten":
			s.say(m, clustersetv1alpha1.ConditionForgotten)
		case "lost":
			s.must(s.hub.Delete(s.t.Context(), m))
			return
		case "joined": // again, after it was lost
			m.CreationTimestamp, m.Status = metav1.NewTime(s.clock.Now()), clustersetv1alpha1.MemberClusterStatus{}
		default:
			s.fail("no such property")
		}
	}
	s.hub.put(m)
}

// say sets a condition of a MemberCluster.
func (s *missing) say(m *clustersetv1alpha1.MemberCluster, condition string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now())})
}

func (s *missing) changeHub(how string) {
	switch own := memberAt("here", "zone-0"); how {
	case "unknown":
		s.must(s.hub.Delete(s.t.Context(), own))
	case "back":
		s.hub.put(own)
		s.known.state = store.State{Phase: store.Live, Since: s.clock.Now()}
	case "away":
		s.known.state = store.State{Phase: store.Away, Since: s.clock.Now()}
	default:
		s.fail("no such state")
	}
}

// settle reconciles until nothing is written.
func (s *missing) settle() {
	s.t.Helper()
	if s.known.unread {
		s.reconcile(s.t)
		return
	}
	s.again = 0
	m := &mirror{cluster: "here", hub: s.known, local: s.local, report: s.report}
	for name := range s.members {
		for range 3 {
			result, err := m.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			s.must(err)
			s.again = sooner(s.again, result.RequeueAfter)
		}
	}
	s.again = sooner(s.again, s.reconcile(s.t).RequeueAfter)
}

// advance lets the importer reconcile whenever it asked for that.
func (s *missing) advance(d time.Duration) {
	s.t.Helper()
	s.watch(d, func(time.Duration) bool { return true })
}

// watch lets time go on until it ends, or check returns false.
func (s *missing) watch(d time.Duration, check func(after time.Duration) bool) {
	s.t.Helper()
	began := s.clock.Now()
	for {
		s.settle()
		after := s.clock.Since(began)
		if !check(after) || after >= d {
			return
		}
		step := d - after
		if s.again > 0 {
			step = min(step, max(s.again, d/500)) // in a long time it may be late
		}
		s.clock.Step(step)
	}
}

func (s *missing) until(from, to time.Duration, want string) {
	s.t.Helper()
	at := time.Duration(-1)
	s.watch(to, func(after time.Duration) bool {
		if s.imported() == want {
			at = after
		}
		return at < 0
	})
	if at < from {
		s.fail("it was so after %s; imported are %s", at, s.imported())
	}
}

// imported returns the endpoints of the service by cluster.
func (s *missing) imported() string {
	cur, _, err := s.gatherLocal(s.t.Context(), web)
	s.must(err)
	if cur.ServiceImport == nil {
		s.extended(cur, nil)
		if cur.Global != nil || cur.Derived != nil || len(cur.Slices) > 0 {
			s.fail("something is left: %+v", cur)
		}
		return "nothing"
	}
	all := map[string][]string{}
	for _, c := range cur.ServiceImport.Status.Clusters {
		all[c.Cluster] = nil
	}
	for _, slice := range cur.Slices {
		cluster := slice.Labels[api.LabelSourceCluster]
		if _, known := all[cluster]; !known {
			s.fail("slice %s is of a cluster that the ServiceImport doesn't have", slice.Name)
		}
		for _, e := range slice.Endpoints {
			all[cluster] = append(all[cluster], e.Addresses...)
		}
	}
	s.extended(cur, all)
	return say(all)
}

// extended checks that the slices which extend this cluster's own Service lead to what is imported, and that there are some if anything is. Rule
// D68 of docs/spec/data-path.md.
func (s *missing) extended(cur desired.Current, imported map[string][]string) {
	s.t.Helper()
	leads := 0
	for _, slice := range cur.Extending {
		cluster := slice.Labels[api.LabelSourceCluster]
		for _, e := range slice.Endpoints {
			leads++
			if !slices.Contains(imported[cluster], e.Addresses[0]) {
				s.fail("the own Service is extended to %s of %s, but imported are %s", e.Addresses[0], cluster, say(imported))
			}
		}
	}
	for _, addresses := range imported {
		if len(addresses) > 0 && leads == 0 {
			s.fail("the own Service is extended to nothing, but imported are %s", say(imported))
		}
	}
}

// served returns the names of the ports that each cluster's slices have.
func (s *missing) served() string {
	cur, _, err := s.gatherLocal(s.t.Context(), web)
	s.must(err)
	all := map[string][]string{}
	for _, slice := range cur.Slices {
		for _, p := range slice.Ports {
			all[slice.Labels[api.LabelSourceCluster]] = append(all[slice.Labels[api.LabelSourceCluster]], *p.Name)
		}
	}
	return say(all)
}

func say(all map[string][]string) string {
	var words []string
	for _, cluster := range slices.Sorted(maps.Keys(all)) {
		slices.Sort(all[cluster])
		words = append(words, cluster+"="+strings.Join(slices.Compact(all[cluster]), ","))
	}
	return strings.Join(words, " ")
}

// content returns what other programs read of the imported objects.
func (s *missing) content() string {
	var all strings.Builder
	say := func(what ...any) {
		text, err := json.Marshal(what)
		s.must(err)
		all.Write(append(text, '\n'))
	}
	for _, o := range s.here.all() {
		switch o := o.(type) {
		case *mcsv1beta1.ServiceImport:
			slices.SortFunc(o.Spec.Ports, func(a, b mcsv1beta1.ServicePort) int { return cmp.Compare(a.Name, b.Name) })
			say(o.Name, o.Labels, o.Spec, o.Status.Clusters)
		case *discoveryv1.EndpointSlice:
			say(o.Name, o.Labels, o.Ports, o.Endpoints)
		case *fabedgev1alpha1.GlobalService:
			say(o.Name, o.Spec)
		case *corev1.Service:
			say(o.Name, o.Spec.Ports, o.Spec.ClusterIPs)
		}
	}
	return all.String()
}
