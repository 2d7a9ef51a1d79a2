package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
)

const (
	// fixedSeed is the seed of make test.
	fixedSeed = 20261122
	// seedEnv repeats a run: the same seed does the same operations and kills the same processes between the same
	// operations.
	seedEnv = "CLUSTERSET_SEED"
	// runsEnv is the number of runs, of this seed and the following ones.
	runsEnv = "CLUSTERSET_RUNS"

	// converge bounds the time from the last operation until the answers are right. It allows for the longest retry delays,
	// up to a minute.
	converge = 4 * time.Minute
)

// TestRandomRun does what users do in three clusters, in random order, while agents, the hub process and DNS servers are
// killed with SIGKILL and started again. At the end every server must answer every name that could ever have existed as the
// oracle says (random_oracle_test.go), which reads only the members' own objects. Then everything is removed, and nothing
// may be left.
//
// make test runs a short script of one seed; make test-long runs 200 operations with another seed each time.
//
// The script continues while processes start and writes are under way, so the timing differs between two runs of a seed; the
// result must not.
func TestRandomRun(t *testing.T) {
	playRandomRuns(t, randomSet{
		clusters: []clusterSpec{
			{name: "xicheng", zone: "beijing", region: "north", dualStack: true},
			{name: "shijiazhuang", zone: "hebei", region: "north"},
			{name: "minhang", zone: "shanghai", region: "south", dualStack: true},
		},
		// Locations without a cluster: one in a zone without a region, and one without either.
		elsewhere:  []location{{Cluster: "shijiazhuang", Zone: "beijing"}, {Cluster: "minhang"}},
		names:      5,
		operations: 60,
	})
}

// TestCommunities is such a run with five clusters in overlapping communities. The script also moves clusters between communities, once
// the whole set out of them and back, and limits exports to some clusters. Each server must answer what the exports that its cluster
// sees make together, and with a cluster's own credentials the hub must show the records of the clusters that it shares a community
// with, and of no others.
func TestCommunities(t *testing.T) {
	playRandomRuns(t, randomSet{
		clusters: []clusterSpec{
			{name: "xicheng", zone: "beijing", region: "north", dualStack: true, communities: []string{"red"}},
			{name: "shijiazhuang", zone: "hebei", region: "north", communities: []string{"red", "blue"}},
			{name: "minhang", zone: "shanghai", region: "south", dualStack: true, communities: []string{"blue", "green"}},
			{name: "chaoyang", zone: "beijing", region: "north", communities: []string{"green"}},
			{name: "pudong", zone: "shanghai", region: "south"},
		},
		communities: []string{"red", "blue", "green", "default"},
		names:       3,
		operations:  24,
	})
}

// playRandomRuns starts the clusters and runs one script on them, or as many as runsEnv says.
func playRandomRuns(t *testing.T, set randomSet) {
	t.Helper()
	seed, runs := randomSeeds(t)
	if long {
		set.operations = 200
	}
	f := newFleet(t, set.clusters...)
	servers := []randomServer{}
	for _, m := range f.members {
		servers = append(servers, randomServer{m.dns, m, location{Cluster: m.name, Zone: m.zone, Region: m.region}})
	}
	for i, at := range set.elsewhere {
		servers = append(servers, randomServer{f.members[1+i].dnsAt(at), f.members[1+i], at})
	}
	for i := range uint64(runs) { //nolint:gosec // a handful
		if !t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			r := &randomRun{fleet: f.of(t), script: newScript(set, seed+i, int(i)), servers: servers}
			r.run()
		}) {
			return // the next run would begin with what this one left
		}
	}
}

// randomSeeds returns the first seed and the number of runs.
func randomSeeds(t *testing.T) (uint64, int) {
	t.Helper()
	seed, runs := uint64(fixedSeed), 1
	if long {
		seed = uint64(time.Now().Unix()) //nolint:gosec // after 1970
	}
	var err error
	if s := os.Getenv(seedEnv); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	if s := os.Getenv(runsEnv); s != "" {
		if runs, err = strconv.Atoi(s); err != nil || runs < 1 {
			t.Fatalf("%s=%q: want how many runs to make", runsEnv, s)
		}
	}
	t.Logf("repeat with %s=%d", seedEnv, seed)
	return seed, runs
}

// randomServer is a DNS server, the member whose objects it reads, and its location.
type randomServer struct {
	*dnsServer
	member *member
	at     location
}

// randomRun is one script run on a fleet.
type randomRun struct {
	*fleet
	script  *script
	servers []randomServer
	// suspects are the questions that were last answered wrongly. They are asked first, because most are still wrong.
	suspects []doubt
	// brief leaves out the questions that must have no answer.
	brief bool
	// tooOld is a cluster whose agent is of a version before communities, so that the hub doesn't enforce them.
	tooOld string
}

func (r *randomRun) run() {
	r.Helper()
	began := time.Now()
	defer func() {
		if r.Failed() {
			r.Logf("repeat with %s=%d; the operations were\n%s", seedEnv, r.script.seed, r.script)
		}
	}()
	for _, op := range r.script.operations {
		if err := op.do(r); err != nil {
			r.Fatalf("%s: %v", op.text, err)
		}
	}
	took(r, fmt.Sprintf("%d operations with %d kills", len(r.script.operations), r.script.kills), began)

	began = time.Now()
	if err := r.clear(); err != nil {
		r.Fatal(err)
	}
	kube.Eventually(r, converge, r.check)
	took(r, "until nothing was left it", began)
}

// rest starts every process that is down and waits until all answers are right.
func (r *randomRun) rest() error {
	ctx, began := context.Background(), time.Now()
	for _, p := range r.processes() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := poll.Within(ctx, converge, func(context.Context) error { return r.check() }); err != nil {
		return err
	}
	took(r, "until all answers were right it", began)
	return nil
}

// processes are those that the script can kill, as many as randomSet.processes says.
func (r *randomRun) processes() []*program {
	all := []*program{r.hub.process}
	for _, m := range r.members {
		all = append(all, m.agent)
	}
	for _, s := range r.servers {
		all = append(all, s.Program)
	}
	return all
}

// clear deletes all the users' objects.
func (r *randomRun) clear() error {
	var group errgroup.Group
	for _, m := range r.members {
		group.Go(func() error {
			var errs []error
			for _, ns := range r.script.namespaces {
				// The importer removes its own objects.
				in := []client.DeleteAllOfOption{client.InNamespace(ns), client.MatchingLabels{randomLabel: "true"}}
				for _, all := range []client.Object{&corev1.Service{}, &mcsv1beta1.ServiceExport{}, &discoveryv1.EndpointSlice{}} {
					errs = append(errs, m.Client.DeleteAllOf(context.Background(), all, in...))
				}
			}
			return errors.Join(errs...)
		})
	}
	return group.Wait()
}
