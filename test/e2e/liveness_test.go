package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// outages is one of the two shared fleets of the tests that kill processes: beijing's nearest is tianjin, by region.
func outages(t *testing.T) *fleet {
	t.Helper()
	f := sharedAs(t, "outages", 2,
		clusterSpec{name: "beijing", zone: "beijing", region: "north"},
		clusterSpec{name: "tianjin", zone: "tianjin", region: "north"},
		clusterSpec{name: "shanghai", zone: "shanghai", region: "south"},
	)
	f.settle()
	t.Cleanup(func() { // a test may leave processes stopped
		f.hub.startAPIServer()
		for _, m := range f.members {
			m.startAPIServer()
			m.startAgent()
			m.dns.start()
		}
		f.hub.restart()
		f.settle()
	})
	return f
}

// everyone waits until the hub and every member see a member in the wanted phase.
func (f *fleet) everyone(member string, phase clustersetv1alpha1.MemberClusterPhase) {
	f.Helper()
	kube.Eventually(f, soon, func() error {
		errs := []error{f.hub.phaseIs(member, phase)}
		for _, m := range f.members {
			if m.agent.Running() {
				errs = append(errs, m.phaseIs(member, phase))
			}
		}
		return errors.Join(errs...)
	})
}

// versions returns the resourceVersions of a member's records of one namespace on the hub, of both kinds.
func (h *hub) versions(member, ns string) string {
	h.Helper()
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	in := client.InNamespace(api.MemberNamespace(member))
	if err := errors.Join(h.list(&services, in), h.list(&endpoints, in)); err != nil {
		h.Fatal(err)
	}
	all := map[string]string{}
	for _, s := range services.Items {
		if s.Spec.ServiceNamespace == ns {
			all[s.Name] = s.ResourceVersion
		}
	}
	for _, e := range endpoints.Items {
		if e.Spec.ServiceNamespace == ns {
			all[e.Name] = e.ResourceVersion
		}
	}
	return fmt.Sprint(all)
}

// A cluster that falls silent is ranked behind every other, is then left out, and returns with its first heartbeat. The hub
// process is killed at each step, and the next one forgets nothing.
func TestSilentCluster(t *testing.T) {
	f := outages(t)
	ns := f.namespace("silent")
	ip := map[string]string{}
	pod := func(m *member) string { return fmt.Sprintf("10.20%d.10.1", m.number) }
	for _, m := range f.members {
		m.apply(exported(ns, "web", httpPort))
		m.apply(exported(ns, "db", "clusterIP: None, "+httpPort), slice(ns, "db", "1", "IPv4", port8080, endpoint(pod(m))))
		ip[m.name] = m.clusterIP(ns, "web", v4)
	}
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	beijing.apply(exported(ns, "only", "clusterIP: None, "+httpPort), slice(ns, "only", "1", "IPv4", port8080, endpoint(pod(beijing))))
	web, db, only := "web."+ns+".svc.global", "db."+ns+".svc.clusterset.local", "only."+ns+".svc.clusterset.local"
	for _, m := range f.members {
		m.dns.eventually(web, "A", ip[m.name])
		m.dns.eventually(db, "A", pod(m))
		m.dns.eventually(only, "A", pod(beijing))
	}
	records := f.hub.versions("beijing", ns)

	// The flags keep it Suspect for the rest of this part.
	const suspect, expire = 4 * time.Second, 8 * time.Second
	f.hub.restart("--suspect-after", suspect.String(), "--expire-after", "30m")
	f.settle()
	beijing.killAgent()
	began := time.Now()
	f.everyone("beijing", clustersetv1alpha1.MemberSuspect)
	took(t, fmt.Sprintf("Suspect, after %s of silence,", suspect), began)
	var mc clustersetv1alpha1.MemberCluster
	if err := f.hub.get("", "beijing", &mc); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady)
	if early := ready.LastTransitionTime.Sub(mc.Status.LastHeartbeatTime.Time); early < suspect-time.Second { // timestamps have a resolution of one second
		t.Errorf("suspected %s after the last heartbeat, want %s", early, suspect)
	}
	for _, m := range []*member{tianjin, shanghai} {
		m.dns.eventually(web, "A", ip[m.name])
		m.dns.eventually(db, "A", pod(m))
		m.dns.eventually(only, "A", pod(beijing)) // no other cluster exports it
	}
	// Asked from its own zone, by another cluster there: no cluster sees itself as silent.
	near := tianjin.dnsAt(location{Cluster: "daxing", Zone: "beijing", Region: "north"})
	near.eventually(web, "A", ip["tianjin"])
	near.eventually(db, "A", pod(tianjin))

	// The hub process is killed and started again. The silent cluster is never seen as healthy meanwhile.
	stop := near.alongside(db, "A", pod(tianjin), pod(shanghai), pod(tianjin)+" "+pod(shanghai))
	f.hub.kill()
	f.hub.start("--suspect-after", suspect.String(), "--expire-after", expire.String())
	restarted := time.Now()
	f.everyone("beijing", clustersetv1alpha1.MemberExpired)
	if waited := time.Since(restarted); waited < expire-time.Second {
		t.Errorf("expired %s after the hub process began to look, want %s", waited, expire)
	}
	took(t, fmt.Sprintf("Expired, after %s of silence from the restart of the hub process on,", expire), restarted)
	for _, m := range []*member{tianjin, shanghai} {
		m.dns.eventually(only, "A", "NXDOMAIN")
		m.dns.eventually("beijing."+web, "A", "NXDOMAIN")
		m.dns.eventually(web, "A", ip[m.name])
	}
	gone := tianjin.dns.alongside(only, "A", "NXDOMAIN")
	f.hub.kill()
	f.hub.start("--suspect-after", suspect.String(), "--expire-after", expire.String())
	// It has not given any other member a worse phase before their heartbeats arrived.
	kube.Eventually(t, soon, func() error {
		n, err := f.hub.Metrics.Sum("clusterset_hub_members", "phase", "Ready")
		if err == nil && n != 2 {
			err = fmt.Errorf("%v members are ready", n)
		}
		return errors.Join(err, f.hub.phaseIs("beijing", clustersetv1alpha1.MemberExpired))
	})
	gone()
	stop()
	kube.Eventually(t, soon, func() error {
		return errors.Join(f.hub.hasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatMissed),
			f.hub.hasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatExpired))
	})

	// It returns, and nothing has to be exported again.
	began = time.Now()
	beijing.startAgent()
	f.settle()
	for _, m := range f.members {
		m.dns.eventually(only, "A", pod(beijing))
	}
	took(t, "the return", began)
	near.eventually(web, "A", ip["beijing"])
	near.eventually(db, "A", pod(beijing))
	beijing.dns.eventually(web, "A", ip["beijing"])
	if now := f.hub.versions("beijing", ns); now != records {
		t.Errorf("the records were written again:\n%s, were\n%s", now, records)
	}
}

// When most members fall silent together the hub process assumes that it is cut off itself: none expires while that lasts.
func TestBrake(t *testing.T) {
	f := outages(t)
	ns := f.namespace("brake")
	beijing, tianjin, shanghai := f.member("beijing"), f.member("tianjin"), f.member("shanghai")
	for _, m := range f.members {
		m.apply(exported(ns, m.name, "clusterIP: None, "+httpPort), slice(ns, m.name, "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.11.1", m.number))))
	}
	const suspect, expire = 3 * time.Second, 6 * time.Second
	flags := []string{"--suspect-after", suspect.String(), "--expire-after", expire.String()}
	f.hub.restart(flags...)
	f.settle()
	for _, m := range []*member{beijing, shanghai} {
		tianjin.dns.eventually(m.name+"."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", m.number))
	}
	beijing.killAgent()
	shanghai.killAgent()
	silent := time.Now()
	paused := func(name string) error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.hub.get("", name, &mc); err != nil {
			return err
		}
		if mc.Status.Phase != clustersetv1alpha1.MemberSuspect || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused) {
			return fmt.Errorf("%s: %+v", name, mc.Status)
		}
		return nil
	}
	kube.Eventually(t, soon, func() error { return errors.Join(paused("beijing"), paused("shanghai")) })
	kube.Eventually(t, soon, func() error {
		n, err := f.hub.Metrics.Sum("clusterset_hub_expiry_paused")
		if err == nil && n != 1 {
			err = errors.New("the metric doesn't say so")
		}
		return errors.Join(err, f.hub.hasEvent("MemberCluster", "", "shanghai", clustersetv1alpha1.ReasonMostMembersSilent))
	})
	// Their names are still answered, because no other cluster exports them, also after a restart of the hub process and
	// long after the time to expire. There is nothing to poll for: the test is about what doesn't happen.
	stopFirst := tianjin.dns.alongside("beijing."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", beijing.number))
	stopSecond := tianjin.dns.alongside("shanghai."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", shanghai.number))
	f.hub.kill()
	f.hub.start(flags...)
	restarted := time.Now()
	kube.Eventually(t, soon, func() error {
		if err := errors.Join(paused("beijing"), paused("shanghai")); err != nil {
			t.Fatalf("the brake was let go: %v", err)
		}
		if since := time.Since(restarted); since < expire+suspect {
			return fmt.Errorf("only %s so far", since)
		}
		return nil
	})
	stopSecond()
	t.Logf("silent for %s, and not expired", time.Since(silent).Round(time.Second))

	// One returns, so only the other is silent, and it expires in its own time.
	shanghai.startAgent()
	f.everyone("shanghai", clustersetv1alpha1.MemberReady)
	stopFirst()
	f.everyone("beijing", clustersetv1alpha1.MemberExpired)
	tianjin.dns.eventually("beijing."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
	kube.Eventually(t, soon, func() error {
		return f.hub.hasEvent("MemberCluster", "", "shanghai", clustersetv1alpha1.ReasonMostMembersHeard)
	})
	beijing.startAgent()
	f.settle()
	tianjin.dns.eventually("beijing."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", beijing.number))
}
