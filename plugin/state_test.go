package clusterset

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
	"github.com/clusterset/clusterset/test/script"
)

// idle is a feed without events. The test sets the source's objects itself.
type idle struct{ cluster *statefile.Cluster }

func (idle) name() string                       { return sourceKubernetes }
func (idle) run(ctx context.Context, _ *source) { <-ctx.Done() }
func (f idle) identity() statefile.Cluster      { return ptr.Deref(f.cluster, statefile.Cluster{}) }
func pass(d time.Duration)                      { script.Elapse(d) }
func numberedVIP(n int) *index.ServiceImport {
	return vip("web", netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}).String())
}
func counterValue(c prometheus.Collector) float64 { return testutil.ToFloat64(c) }

// stateServer is a server of a process, which has two of them during a reload.
type stateServer struct {
	*ClusterSet
	cluster *statefile.Cluster
	forget  func()
}

// stateWorld is a process with a state file.
type stateWorld struct {
	t          *testing.T
	path       string
	maxAge     time.Duration
	namespaces []string
	cluster    statefile.Cluster
	api        *kindServer    // nil for none that can be reached
	servers    []*stateServer // in the order of their starts
	serial     uint32
	last       string      // answer, which that serial was of
	began      []time.Time // the writes that succeed
	before     map[string]float64

	// These change while servers read them.
	room  atomic.Int64 // so many writes succeed
	takes atomic.Int64 // nanoseconds, by each of them
	ahead atomic.Int64 // nanoseconds, by the clock
}

// set is a command that sets a duration.
func set(to *atomic.Int64) script.Command {
	return script.For(func(d time.Duration, _ ...string) error { to.Store(int64(d)); return nil })
}

var stateResults = map[string]prometheus.Collector{
	"ok": stateReads.WithLabelValues("ok"), "absent": stateReads.WithLabelValues("absent"), "refused": stateReads.WithLabelValues("refused"),
	"written": stateWrites.WithLabelValues("ok"), "failed": stateWrites.WithLabelValues("error"),
}

func newStateWorld(t *testing.T) *stateWorld {
	w := &stateWorld{
		t: t, path: filepath.Join(t.TempDir(), "snapshot"), cluster: statefile.Cluster{Server: "https://here", UID: "here"}, before: map[string]float64{},
	}
	w.room.Store(1 << 20)
	for name, c := range stateResults {
		w.before[name] = counterValue(c)
	}
	write := writeState
	wallClock = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	writeState = func(path string, s *statefile.State) error {
		if w.room.Add(-1) < 0 {
			return errors.New("the disk is full")
		}
		w.began = append(w.began, time.Now())
		<-time.After(time.Duration(w.takes.Load()))
		return write(path, s)
	}
	t.Cleanup(func() {
		for len(w.servers) > 0 {
			w.end()
		}
		writeState, wallClock = write, time.Now
	})
	return w
}

// counted returns how often something was counted since it was last called for it.
func (w *stateWorld) counted(name string) int {
	synctest.Wait()
	now := counterValue(stateResults[name])
	defer func() { w.before[name] = now }()
	return int(now - w.before[name])
}

// register registers sources as running, until the returned function is called.
func register(s *source) (forget func()) {
	ss := &sources{byKey: map[string]*source{"": s}}
	s.corefile = ss
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.all == nil {
		started.all = map[*sources]bool{}
	}
	started.all[ss] = true
	return func() {
		started.mu.Lock()
		defer started.mu.Unlock()
		delete(started.all, ss)
	}
}

// start starts a server, with the snapshot option unless it is plain.
func (w *stateWorld) start(kept bool) {
	cluster := w.cluster
	s := newSource(idle{&cluster})
	if w.api != nil {
		s.feed = kindFeed{w.api, cluster}
	}
	s.label, s.indexes = "scripted", []*index.Index{index.New(index.Options{LongestZone: len("clusterset.local."), Namespaces: w.namespaces, Serials: &serials})}
	if kept {
		s.keeper = newKeeper(snapshotOptions{w.path, w.maxAge}, s, func() statefile.Cluster { return cluster })
		s.keeper.indexes = s.indexes
	}
	w.servers = append(w.servers, &stateServer{&ClusterSet{index: s.indexes[0], source: s}, &cluster, register(s)})
	s.start()
}

// end ends the oldest server.
func (w *stateWorld) end() {
	s := w.servers[0]
	w.servers = w.servers[1:]
	s.forget()
	s.source.close()
	s.source.endMetrics()
}

func (w *stateWorld) newest() *stateServer { return w.servers[len(w.servers)-1] }

// sync replaces all objects of the newest server by a VIP of that number. Nothing of that may be seen before the last kind was read.
func (w *stateWorld) sync(n int) {
	before := w.newest().index.Snapshot()
	for _, k := range index.Kinds {
		if now := w.newest().index.Snapshot(); (before == nil || before.Stale()) && now != before {
			w.t.Errorf("answers are others before %s was read", k)
		}
		if before == nil && len(w.servers) == 1 && w.newest().Ready() {
			w.t.Errorf("ready before %s was read", k)
		}
		w.newest().source.reachable(k, true)
		var objects []index.Object
		if k == index.KindServiceImport {
			objects = append(objects, numberedVIP(n))
		}
		w.newest().source.replace(k, objects)
	}
}

func (w *stateWorld) put(o index.Object) {
	w.newest().source.put(index.KindServiceImport, index.ObjectID{}, o, nil)
}

// file writes a state file that was known to be right so long ago.
func (w *stateWorld) file(age time.Duration, args ...string) error {
	s := &statefile.State{Known: time.Now().Add(-age), Cluster: w.cluster}
	for _, arg := range args {
		key, value, option := strings.Cut(arg, "=")
		switch {
		case key == "uid":
			s.Cluster.UID = value
		case key == "namespaces":
			s.Namespaces = strings.Split(value, ",")
		case !option:
			n, err := strconv.Atoi(key)
			if err != nil {
				return err
			}
			s.Objects = []index.Object{numberedVIP(n)}
		}
	}
	return statefile.Write(w.path, s)
}

func address(known *index.Snapshot) string {
	switch {
	case known == nil:
		return "nothing"
	case known.Service("web.ns") == nil:
		return "none"
	}
	ip := known.Service("web.ns").Set(index.MCS).Addrs[0].As4()
	return strconv.Itoa(int(ip[2])<<8 | int(ip[3]))
}

// answers expects the number of the newest server's VIP, none, or nothing for SERVFAIL. The serial never goes back, and each other answer has
// another.
func (w *stateWorld) answers(want string, more ...string) error {
	known := w.newest().index.Snapshot()
	if got := address(known); got != want {
		return fmt.Errorf("got %s", got)
	}
	switch {
	case known == nil:
		return nil
	case !w.newest().Ready():
		return errors.New("not ready")
	}
	if known.Serial() < w.serial || known.Serial() == w.serial && want != w.last {
		return fmt.Errorf("the serial goes from %d to %d, the answer from %s to %s", w.serial, known.Serial(), w.last, want)
	}
	w.serial, w.last = known.Serial(), want
	if stale := slices.Contains(more, "stale"); known.Stale() != stale {
		return fmt.Errorf("stale: %t", !stale)
	}
	return nil
}

// serves starts a server with a file, expects its answers and how the file was read, and that live objects replace it.
func (w *stateWorld) serves(want string, result ...string) error {
	w.start(true)
	defer w.end()
	err := w.answers(want, "stale")
	if n := w.counted(result[0]); n != 1 {
		err = errors.Join(err, fmt.Errorf("%s was counted %d times", result[0], n))
	}
	w.sync(2)
	return errors.Join(err, w.answers("2", "live"))
}

func (w *stateWorld) read() (*statefile.State, error) {
	synctest.Wait()
	s, _, err := statefile.Read(w.path)
	return s, err
}

// age expects that the file is no older than that, or at least so old.
func (w *stateWorld) age(atLeast bool) script.Command {
	return script.For(func(d time.Duration, _ ...string) error {
		s, err := w.read()
		if err != nil {
			return err
		}
		if age := time.Since(s.Known); age != d && (age > d) != atLeast {
			return fmt.Errorf("it is %v old", age)
		}
		return nil
	})
}

// between expects that the number of writes since the last time was between two numbers, as the metric says.
func (w *stateWorld) between(name string) script.Command {
	return numbers(func(args ...int) error {
		if n := w.counted(name); n < args[0] || n > args[1] {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
}

func numbers(run func(...int) error) script.Command {
	return func(args ...string) error {
		var all []int
		for _, arg := range args {
			n, err := strconv.Atoi(arg)
			if err != nil {
				return err
			}
			all = append(all, n)
		}
		return run(all...)
	}
}

// State files, and what the server before a reload knows. Rules A52, A54 and A55 of docs/spec/answers.md.
func TestState(t *testing.T) {
	script.Run(t, "testdata/state/state.txtar", func(t *testing.T) map[string]script.Command {
		w := newStateWorld(t)
		number := func(run func(n int)) script.Command {
			return numbers(func(args ...int) error { run(args[0]); return nil })
		}
		kind := func(name string) error {
			for _, k := range index.Kinds {
				if k.String() == name {
					w.newest().source.reachable(k, false)
					return nil
				}
			}
			return errors.New("no such kind")
		}
		return map[string]script.Command{
			"max-age":    script.For(func(d time.Duration, _ ...string) error { w.maxAge = d; return nil }),
			"namespaces": func(args ...string) error { w.namespaces = args; return nil },
			"cluster":    func(args ...string) error { w.cluster = statefile.Cluster{Server: args[0], CAs: args[1:]}; return nil },
			"lacks": number(func(n int) {
				w.api = &kindServer{kind: watchedKinds[0], missing: n, object: `"metadata":{"name":"web","namespace":"ns","resourceVersion":"1"},"spec":{"type":"ClusterSetIP","ips":["10.0.0.1"],"ports":[{"port":80}]}`}
			}),
			"file":   script.For(w.file),
			"text":   script.One(func(text string) error { return os.WriteFile(w.path, []byte(text), 0o600) }),
			"remove": script.None(func() { _ = os.Remove(w.path) }),
			"folder": script.None(func() { _ = os.Remove(w.path); _ = os.Mkdir(w.path, 0o700) }),
			"start":  script.None(func() { w.start(true) }),
			"plain":  script.None(func() { w.start(false) }),
			"await":  script.For(func(d time.Duration, _ ...string) error { w.newest().await(d); return nil }),
			"end":    script.None(w.end),
			"fail": script.None(func() { // the newest server
				w.servers = append([]*stateServer{w.newest()}, w.servers[:len(w.servers)-1]...)
				w.end()
			}),
			"recognised": script.One(func(uid string) error {
				synctest.Wait() // a write of the file may be reading it
				w.newest().cluster.UID = uid
				w.newest().source.keeper.recognised()
				return nil
			}),
			"sync": number(w.sync),
			"put":  number(func(n int) { w.put(numberedVIP(n)) }),
			"lose": script.One(kind),
			"changes": script.For(func(every time.Duration, args ...string) error {
				n, err := strconv.Atoi(args[0])
				for i := range n {
					w.put(numberedVIP(i + 1))
					pass(every)
				}
				return err
			}),
			"ports": script.For(func(every time.Duration, _ ...string) error {
				for i := range 50 {
					o := numberedVIP(0)
					o.Ports = append(o.Ports, index.Port{Number: uint16(1000 + i)}) // a port without a name has no SRV record
					w.put(o)
					pass(every)
				}
				return nil
			}),
			"room":    number(func(n int) { w.room.Store(int64(n)) }),
			"slow":    set(&w.takes),
			"clock":   set(&w.ahead),
			"answers": script.OneOrMore(w.answers),
			"serves":  script.OneOrMore(w.serves),
			"younger": w.age(false),
			"older":   w.age(true),
			"written": w.between("written"),
			"failed":  w.between("failed"),
			"apart": script.For(func(d time.Duration, _ ...string) error {
				for i := 1; i < len(w.began); i++ {
					if rest := w.began[i].Sub(w.began[i-1]); rest < d {
						return fmt.Errorf("write %d follows after %v", i, rest)
					}
				}
				return nil
			}),
			"content": numbers(func(args ...int) error {
				s, err := w.read()
				if err == nil && (len(s.Objects) != 1 || s.Objects[0].(*index.ServiceImport).IPs[0] != numberedVIP(args[0]).IPs[0]) {
					err = fmt.Errorf("the file has %v", s.Objects)
				}
				return err
			}),
			"gauge": numbers(func(args ...int) error {
				if got := counterValue(staleGauge.WithLabelValues("scripted")); got != float64(args[0]) {
					return fmt.Errorf("source_stale is %v", got)
				}
				return nil
			}),
			// Server blocks that share the newest source wait for it one after another; those with "restored" answer from a file.
			"blocks": script.For(func(want time.Duration, args ...string) error {
				for _, arg := range args {
					timeout, restored := strings.CutSuffix(arg, "/restored")
					d, err := time.ParseDuration(timeout)
					if err != nil {
						return err
					}
					c := &ClusterSet{source: w.newest().source, index: index.New(index.Options{})}
					if restored {
						c.index.Restore(nil, time.Unix(1, 0))
					}
					c.await(d)
				}
				if took := time.Since(w.newest().source.startedAt); took != want {
					return fmt.Errorf("they listened after %v", took)
				}
				return nil
			}),
		}
	})
}
