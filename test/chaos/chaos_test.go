package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

const (
	// timeEnv is how long to inject faults, such as "10m". Each fault is injected at least once. make chaos sets it.
	timeEnv = "CLUSTERSET_CHAOS"
	// faultEnv selects faults by parts of their names, separated by semicolons.
	faultEnv = "CLUSTERSET_CHAOS_FAULT"
	// tableEnv names the page whose table of faults this run replaces.
	tableEnv = "CLUSTERSET_CHAOS_TABLE"
)

// TestChaos injects one fault after another into a fleet of a hub and members, while every exported name is asked in every cluster.
// No answer of a healthy exporter may change, be missing or be late. The answers of a faulty exporter must go and come back in the promised
// order. After each fault, every answer must be what the random runs' oracle computes from the users' objects, some of which changed during
// the fault.
//
// The seed decides the faults, their victims and durations, and what users do meanwhile.
func TestChaos(t *testing.T) {
	budget := skipUnlessAsked(t)
	seed, _ := random.Seeds(t)
	table, end := newTable(t, seed), time.Now().Add(budget)
	picked := selected(t)
	for _, in := range []fleetOf{threeClusters, twoNetworks} {
		faults := slices.DeleteFunc(slices.Clone(picked), func(f fault) bool { return f.apart != (in.networks != nil) })
		if len(faults) > 0 {
			t.Run(in.name, func(t *testing.T) { newRun(t, in, table, seed).injectAll(faults, end) })
		}
	}
}

// run is one run of TestChaos or of an upgrade test.
type run struct {
	*random.Run
	in     fleetOf
	wires  *wires
	prober *prober
	table  table

	// The current fault:
	fault  fault
	victim *fleettest.Member
	far    *fleettest.Member   // the one that can't reach the victim, if that is the fault
	phases map[phase][]answers // the expected answers with the victim in each phase
	// felt lists the traffic that felt the fault. disturbed is how often links had made a difference before it.
	felt      []string
	disturbed int

	asked answers // the questions that the prober asks
	// parted is how often each pair of members was parted: the way back takes longer each time (D50).
	parted map[way]int
}

// fault is one kind of fault.
type fault struct {
	group, name string
	// promise is the expected effect, in the table's words.
	promise string
	// silent makes the hub process suspect silent members within seconds.
	silent bool
	// apart means that it is for two networks of two clusters each, and not for three clusters in one.
	apart bool
	// does injects the fault and ends it.
	does func(*run)
}

func (f fault) String() string { return f.group + ": " + f.name }

// noChange is the promise of most faults.
const noChange = "no answer changes"

// skipUnlessAsked returns how long to inject faults. It skips the test unless make chaos runs it: half an hour of faults, or compiling
// another version, is too much for each change.
func skipUnlessAsked(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv(timeEnv)
	if s == "" {
		t.Skipf("part of make chaos, which sets %s", timeEnv)
	}
	budget, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("%s: %v", timeEnv, err)
	}
	return budget
}

// selected returns the faults to inject.
func selected(t *testing.T) []fault {
	t.Helper()
	words := os.Getenv(faultEnv)
	if words == "" {
		return allFaults()
	}
	picked := slices.DeleteFunc(allFaults(), func(f fault) bool {
		return !slices.ContainsFunc(strings.Split(words, ";"), func(w string) bool { return strings.Contains(f.String(), w) })
	})
	if len(picked) == 0 {
		t.Fatalf("%s=%q names no fault", faultEnv, words)
	}
	return picked
}

func allFaults() []fault {
	return slices.Concat(processFaults, linkFaults, reachFaults, requestFaults, stateFaults, communityFaults, networkFaults, userFaults)
}

// newRun starts a fleet, exports services from it, and starts asking for them. The caller can change the fleet before it
// starts.
func newRun(t *testing.T, in fleetOf, table table, seed uint64, changes ...func(*fleettest.Fleet)) *run {
	t.Helper()
	fleettest.SkipIfShort(t)
	fleettest.Alone(t)
	// Small enough to be filled quickly.
	quota := []kube.Option{kube.WithEtcdArgs("--quota-backend-bytes=" + strconv.Itoa(quotaBytes))}
	specs := slices.Clone(in.clusters)
	for i := range specs {
		specs[i].Options = quota
	}
	f := fleettest.Assemble(t.TempDir(), specs)
	f.Hub.Options = quota
	for _, change := range changes {
		change(f)
	}
	w := wireUp(f, seed)
	t.Cleanup(w.close)
	t.Cleanup(f.Stop)
	began := time.Now()
	if err := f.Launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	fleettest.Took(t, "the fleet's start", began)

	script := random.NewSteady(specs, in.networks, seed)
	c := &run{
		Run: &random.Run{Fleet: f.For(t), Script: script, Silences: true},
		in:  in, wires: w, table: table, parted: map[way]int{},
	}
	for _, m := range c.Members {
		c.Servers = append(c.Servers, random.Server{DNS: m.DNS, Member: m, At: fleet.Location{Cluster: m.Spec.Name, Zone: m.Spec.Zone, Region: m.Spec.Region}})
	}
	c.Play()
	kube.EventuallyWithin(t, random.Converge, c.Check)
	c.victim = c.Members[0]
	c.foresee()
	c.prober = startProber(c.Servers, c.phases[ready], seed)
	t.Cleanup(c.prober.end)
	return c
}

// injectAll injects each fault once, and again until the end has come.
func (c *run) injectAll(faults []fault, end time.Time) {
	for round := 0; ; round++ {
		c.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		// Faults that need a hub process with short thresholds follow one another, so that it is rarely restarted.
		order := map[bool]int{true: 1}
		slices.SortStableFunc(faults, func(a, b fault) int { return order[a.silent] - order[b.silent] })
		for _, f := range faults {
			if round > 0 && time.Now().After(end) {
				return
			}
			if !c.inject(f) {
				return // the next fault would start with this one's leftovers
			}
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// inject injects a fault and waits until every answer is right again. It returns whether every answer became right.
func (c *run) inject(f fault) (mended bool) {
	outer := c.Run
	defer func() { c.Run = outer }()
	outer.TB.(*testing.T).Run(strings.NewReplacer(" ", "_", "/", "_").Replace(f.String()), func(t *testing.T) {
		c.Run = &random.Run{Fleet: outer.For(t), Script: outer.Script, Servers: outer.Servers, Silences: true}
		c.fault = f
		c.choose()
		c.impatient(f.silent)
		c.prober.expect(c.phases[ready])
		c.prober.collect()

		began := time.Now()
		f.does(c)
		lasted := time.Since(began)
		c.links()
		ended := time.Now()
		c.mend()
		mended = true
		recovered := time.Since(ended)
		c.foresee()
		c.prober.expect(c.phases[ready])
		c.watch(c.round()) // so that each question is asked once after the recovery
		counts := c.prober.collect()
		c.table.add(f, row{lasted, recovered, counts})
		if len(c.felt) == 0 {
			t.Error("no traffic felt this fault, so it shows nothing")
		}
		if counts.bad() > 0 {
			t.Errorf("%d wrong, %d missing, %d late of %d answers:\n%s", counts.wrong, counts.missing, counts.late, counts.asked, strings.Join(counts.examples, "\n"))
		}
		t.Logf("%s: %s of fault at %s, right again after %s; %d questions, %d of them unanswered by a server that was down; felt: %s", f,
			lasted.Round(time.Millisecond), c.victim.Spec.Name, recovered.Round(time.Millisecond), counts.asked, counts.unanswered, strings.Join(c.felt, "; "))
	})
	return mended
}

// choose picks the victim and computes the expected answers with the victim in each phase. A victim that is to fall silent must be one
// whose silence shows: in another cluster, an answer changes when the victim ranks last, and again when it is gone.
func (c *run) choose() {
	c.Helper()
	c.felt, c.disturbed = nil, c.wires.disturbed()
	candidates := slices.Clone(c.Members)
	c.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	if slices.Contains(partings, c.fault.promise) {
		c.chooseTwo(candidates)
		return
	}
	for _, c.victim = range candidates {
		c.foresee()
		if c.fault.promise != goesAndReturns && c.fault.promise != staysInForce || c.shows(ready, suspected) > 0 && c.shows(suspected, expired) > 0 {
			return
		}
	}
	c.Fatal("whichever cluster falls silent, no answer changes elsewhere")
}

// shows counts the answers of the other clusters that differ between two phases of the victim.
func (c *run) shows(before, after phase) int {
	n := 0
	for i := range c.Servers {
		if i != c.victimServer() {
			n += len(differing(c.phases[before][i], c.phases[after][i]))
		}
	}
	return n
}

// mend undoes a fault, starts what is down, and waits until every answer is right.
func (c *run) mend() {
	c.Helper()
	c.wires.mend()
	c.Paths.MendAll()
	for _, m := range c.Members {
		c.resumePlane(&m.Cluster)
	}
	c.resumePlane(&c.Hub.Cluster)
	for _, p := range c.Processes() {
		if err := c.resume(p); err != nil {
			c.Fatal(err)
		}
	}
	for i, s := range c.Servers {
		c.prober.moved(i, s.Addr())
	}
	c.Settle()
	kube.EventuallyWithin(c, random.Converge, func() error { return errors.Join(c.Check(), c.recorded()) })
	for i := range c.Servers {
		c.prober.excuse(i, false)
	}
}

// watch waits while the prober asks. It can't poll, because the test is about what doesn't happen.
func (c *run) watch(d time.Duration) { <-time.After(d) }

// between returns a random duration.
func (c *run) between(from, to time.Duration) time.Duration {
	return from + time.Duration(c.Int64N(int64(to-from)))
}

// IntN and the methods below use the script's random source, so that the seed decides everything.
func (c *run) IntN(n int) int                  { return c.Script.IntN(n) }
func (c *run) Int64N(n int64) int64            { return c.Script.Int64N(n) }
func (c *run) Shuffle(n int, f func(i, j int)) { c.Script.Shuffle(n, f) }

// victimServer returns the index of the victim's DNS server.
func (c *run) victimServer() int {
	return slices.IndexFunc(c.Servers, func(s random.Server) bool { return s.Member.Spec.Name == c.victim.Spec.Name })
}

// The hub process's thresholds while it is impatient.
const (
	suspectAfter = 8 * time.Second
	expireAfter  = 24 * time.Second
)

// silence returns the hub process's flags for these thresholds, with the given time to expire.
func silence(expire time.Duration) []string {
	return []string{"--suspect-after", suspectAfter.String(), "--expire-after", expire.String()}
}

// impatient sets whether the hub process suspects and expires members within seconds, or after the default times. It restarts the process
// if its flags change.
func (c *run) impatient(yes bool) {
	c.Helper()
	var flags []string
	if yes {
		flags = silence(expireAfter)
	}
	if !slices.Equal(flags, c.Hub.Base.Flags) {
		c.Hub.Restart(flags...)
		c.Settle()
	}
}

// fallsSilent waits until the victim has gone through the phases of silence, and until each answer that a phase changes has changed in the
// other clusters. The victim's own DNS server may not learn of the phases.
func (c *run) fallsSilent() {
	c.Helper()
	phases := []phase{ready, suspected, expired, ready}
	var stages [][]answers
	for _, phase := range phases {
		stages = append(stages, c.phases[phase])
	}
	c.prober.expect(stages...)
	// The victim doesn't expire until all answers have changed that must change when it is Suspect. Many of them are the same when it has
	// Expired, so otherwise a server that ignores Suspect would give them in time.
	for before, expire := range []time.Duration{time.Hour, expireAfter} {
		stage, phase := before+1, phases[before+1]
		c.Hub.Restart(silence(expire)...)
		c.prober.look(stage)
		c.until(func() error { return c.Hub.PhaseIs(c.victim.Spec.Name, phase) })
		c.until(func() error {
			if err := c.prober.unseen(stage, c.victimServer()); err != nil {
				return fmt.Errorf("%s is %s: %w", c.victim.Spec.Name, phase, err)
			}
			return nil
		})
		c.touched("%d answers changed when it was %s", c.shows(phases[before], phase), phase)
	}
	c.prober.look(0)
}

// wire returns a client's wire.
func (c *run) wire(of *fleettest.Cluster, client string) *wire {
	c.Helper()
	w, err := c.wires.get(of, client)
	if err != nil {
		c.Fatal(err)
	}
	return w
}

// place is a kind of connection in the control plane.
type place struct {
	name string
	wire func(*run) *wire
	// listens means that the client sends next to nothing once it watches, so a fault must affect the direction to the client.
	listens bool
}

// places are the connections that can be disturbed.
var places = []place{
	{name: "agent to hub", wire: func(c *run) *wire { return c.wire(&c.Hub.Cluster, c.victim.Spec.Name) }},
	{name: "agent to its own API server", wire: func(c *run) *wire { return c.wire(&c.victim.Cluster, "clusterset-member") }, listens: true},
	{name: "DNS to its API server", wire: func(c *run) *wire { return c.wire(&c.victim.Cluster, "clusterset-dns") }, listens: true},
	{name: "hub process to its API server", wire: func(c *run) *wire { return c.wire(&c.Hub.Cluster, "clusterset-hub") }, listens: true},
}

// good is a wire without faults.
var good faultproxy.Condition

// until waits until f returns nil.
func (c *run) until(f func() error) {
	c.Helper()
	kube.Eventually(c, f)
}

// resume starts a program, or continues a paused one.
func (c *run) resume(p *fleet.Program) error {
	p.Resume()
	if err := p.Start(context.Background()); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	return nil
}

// fleetOf are the clusters of a run, and the networks that they are in.
type fleetOf struct {
	name     string
	clusters []fleettest.Spec
	networks []string // by cluster; nil if all are in one
}

// All members share a community, so that each sees all exports while the hub enforces communities.
var (
	threeClusters = fleetOf{name: "three clusters", clusters: []fleettest.Spec{
		{Name: "xicheng", Beacons: true, Zone: "beijing", Region: "north", DualStack: true, Communities: []string{"cities", "north"}},
		{Name: "shijiazhuang", Beacons: true, Zone: "hebei", Region: "north", Communities: []string{"cities", "north"}},
		{Name: "minhang", Beacons: true, Zone: "shanghai", Region: "south", DualStack: true, Communities: []string{"cities", "south"}},
	}}
	// twoNetworks are two regions. Each cluster prefers the other one of its network.
	twoNetworks = fleetOf{name: "two networks", networks: []string{"core", "core", "edge", "edge"}, clusters: append(slices.Clone(threeClusters.clusters),
		fleettest.Spec{Name: "gulou", Beacons: true, Zone: "jiangsu", Region: "south", Communities: []string{"cities", "south"}})}
)

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }
