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
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// everyone waits until the hub, and every member whose agent runs, see a member in the wanted phase.
func everyone(f *fleettest.Fleet, member string, phase clustersetv1alpha1.MemberClusterPhase) {
	f.Helper()
	kube.Eventually(f, func() error {
		errs := []error{f.Hub.PhaseIs(member, phase)}
		for _, m := range f.Members {
			if m.Agent.Running() {
				errs = append(errs, m.PhaseIs(member, phase))
			}
		}
		return errors.Join(errs...)
	})
}

// versions returns the resourceVersions of a member's records of one namespace on the hub, of both kinds.
func versions(h *fleettest.Hub, member, ns string) string {
	h.Helper()
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	in := client.InNamespace(api.MemberNamespace(member))
	if err := errors.Join(h.List(&services, in), h.List(&endpoints, in)); err != nil {
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

// A cluster that falls silent first ranks behind all others, and is then left out of all answers. It returns with its first
// heartbeat. The hub process is killed at each step, and the next one forgets nothing.
func TestSilentCluster(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("silent")
	ip := map[string]string{}
	pod := func(m *fleettest.Member) string { return fmt.Sprintf("10.20%d.10.1", m.Number) }
	for _, m := range f.Members {
		m.Apply(exported(ns, "web", httpPort))
		m.Apply(exported(ns, "db", "clusterIP: None, "+httpPort), slice(ns, "db", "1", "IPv4", port8080, endpoint(pod(m))))
		ip[m.Spec.Name] = m.ClusterIP(ns, "web", v4)
	}
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	beijing.Apply(exported(ns, "only", "clusterIP: None, "+httpPort), slice(ns, "only", "1", "IPv4", port8080, endpoint(pod(beijing))))
	web, db, only := "web."+ns+".svc.global", "db."+ns+".svc.clusterset.local", "only."+ns+".svc.clusterset.local"
	for _, m := range f.Members {
		m.DNS.Eventually(web, "A", ip[m.Spec.Name])
		m.DNS.Eventually(db, "A", pod(m))
		m.DNS.Eventually(only, "A", pod(beijing))
	}
	records := versions(f.Hub, "beijing", ns)

	// These flags keep it Suspect until the next restart of the hub process.
	const suspect, expire = 4 * time.Second, 8 * time.Second
	f.Hub.Restart("--suspect-after", suspect.String(), "--expire-after", "30m")
	f.Settle()
	beijing.KillAgent()
	began := time.Now()
	everyone(f, "beijing", clustersetv1alpha1.MemberSuspect)
	fleettest.Took(t, fmt.Sprintf("Suspect, after %s of silence,", suspect), began)
	var mc clustersetv1alpha1.MemberCluster
	if err := f.Hub.Get("", "beijing", &mc); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionReady)
	if early := ready.LastTransitionTime.Sub(mc.Status.LastHeartbeatTime.Time); early < suspect-time.Second { // timestamps have a resolution of one second
		t.Errorf("suspected %s after the last heartbeat, want %s", early, suspect)
	}
	for _, m := range []*fleettest.Member{tianjin, shanghai} {
		m.DNS.Eventually(web, "A", ip[m.Spec.Name])
		m.DNS.Eventually(db, "A", pod(m))
		m.DNS.Eventually(only, "A", pod(beijing)) // no other cluster exports it
	}
	// Ask from its own zone, as another cluster there: no cluster sees itself as silent.
	near := tianjin.DNSAt(fleet.Location{Cluster: "daxing", Zone: "beijing", Region: "north"})
	near.Eventually(web, "A", ip["tianjin"])
	near.Eventually(db, "A", pod(tianjin))

	// The hub process is killed and started again. Meanwhile the silent cluster is never seen as healthy.
	stop := near.Alongside(db, "A", pod(tianjin), pod(shanghai), pod(tianjin)+" "+pod(shanghai))
	f.Hub.Kill()
	f.Hub.Start("--suspect-after", suspect.String(), "--expire-after", expire.String())
	restarted := time.Now()
	everyone(f, "beijing", clustersetv1alpha1.MemberExpired)
	if waited := time.Since(restarted); waited < expire-time.Second {
		t.Errorf("expired %s after the hub process began to look, want %s", waited, expire)
	}
	fleettest.Took(t, fmt.Sprintf("Expired, after %s of silence from the restart of the hub process on,", expire), restarted)
	for _, m := range []*fleettest.Member{tianjin, shanghai} {
		m.DNS.Eventually(only, "A", "NXDOMAIN")
		m.DNS.Eventually("beijing."+web, "A", "NXDOMAIN")
		m.DNS.Eventually(web, "A", ip[m.Spec.Name])
	}
	gone := tianjin.DNS.Alongside(only, "A", "NXDOMAIN")
	f.Hub.Kill()
	f.Hub.Start("--suspect-after", suspect.String(), "--expire-after", expire.String())
	// It didn't give any other member a worse phase before that member's heartbeat arrived.
	kube.Eventually(t, func() error {
		n, err := f.Hub.Metrics.Sum("clusterset_hub_member_phase", "phase", "Ready")
		if err == nil && n != 2 {
			err = fmt.Errorf("%v members are ready", n)
		}
		return errors.Join(err, f.Hub.PhaseIs("beijing", clustersetv1alpha1.MemberExpired))
	})
	gone()
	stop()
	kube.Eventually(t, func() error {
		return errors.Join(f.Hub.HasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatMissed),
			f.Hub.HasEvent("MemberCluster", "", "beijing", clustersetv1alpha1.ReasonHeartbeatExpired))
	})

	// The cluster returns, and nothing has to be exported again.
	began = time.Now()
	beijing.StartAgent()
	f.Settle()
	for _, m := range f.Members {
		m.DNS.Eventually(only, "A", pod(beijing))
	}
	fleettest.Took(t, "the return", began)
	near.Eventually(web, "A", ip["beijing"])
	near.Eventually(db, "A", pod(beijing))
	beijing.DNS.Eventually(web, "A", ip["beijing"])
	if now := versions(f.Hub, "beijing", ns); now != records {
		t.Errorf("the records were written again:\n%s, were\n%s", now, records)
	}
}

// When most members fall silent together, the hub process assumes that it is cut off itself. None expires while that lasts.
func TestBrake(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("brake")
	beijing, tianjin, shanghai := f.Member("beijing"), f.Member("tianjin"), f.Member("shanghai")
	for _, m := range f.Members {
		m.Apply(exported(ns, m.Spec.Name, "clusterIP: None, "+httpPort), slice(ns, m.Spec.Name, "1", "IPv4", port8080, endpoint(fmt.Sprintf("10.20%d.11.1", m.Number))))
	}
	const suspect, expire = 3 * time.Second, 6 * time.Second
	flags := []string{"--suspect-after", suspect.String(), "--expire-after", expire.String()}
	f.Hub.Restart(flags...)
	f.Settle()
	for _, m := range []*fleettest.Member{beijing, shanghai} {
		tianjin.DNS.Eventually(m.Spec.Name+"."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", m.Number))
	}
	beijing.KillAgent()
	shanghai.KillAgent()
	silent := time.Now()
	paused := func(name string) error {
		var mc clustersetv1alpha1.MemberCluster
		if err := f.Hub.Get("", name, &mc); err != nil {
			return err
		}
		if mc.Status.Phase != clustersetv1alpha1.MemberSuspect || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused) {
			return fmt.Errorf("%s: %+v", name, mc.Status)
		}
		return nil
	}
	kube.Eventually(t, func() error { return errors.Join(paused("beijing"), paused("shanghai")) })
	kube.Eventually(t, func() error {
		n, err := f.Hub.Metrics.Sum("clusterset_hub_expiry_paused")
		if err == nil && n != 1 {
			err = errors.New("the metric doesn't say so")
		}
		return errors.Join(err, f.Hub.HasEvent("MemberCluster", "", "shanghai", clustersetv1alpha1.ReasonMostMembersSilent))
	})
	// Their names are still answered, because no other cluster exports them. That holds even after a restart of the hub
	// process, and long after the time to expire. The loop below waits on purpose, because the test is about what doesn't
	// happen.
	stopFirst := tianjin.DNS.Alongside("beijing."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", beijing.Number))
	stopSecond := tianjin.DNS.Alongside("shanghai."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", shanghai.Number))
	f.Hub.Kill()
	f.Hub.Start(flags...)
	restarted := time.Now()
	kube.Eventually(t, func() error {
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

	// One returns. Now only the other is silent, and it expires after the usual time.
	shanghai.StartAgent()
	everyone(f, "shanghai", clustersetv1alpha1.MemberReady)
	stopFirst()
	everyone(f, "beijing", clustersetv1alpha1.MemberExpired)
	tianjin.DNS.Eventually("beijing."+ns+".svc.clusterset.local", "A", "NXDOMAIN")
	beijing.StartAgent()
	f.Settle()
	tianjin.DNS.Eventually("beijing."+ns+".svc.clusterset.local", "A", fmt.Sprintf("10.20%d.11.1", beijing.Number))
}
