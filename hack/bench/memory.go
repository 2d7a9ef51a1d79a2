package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"
)

// memory compares the heap of each server, after a garbage collection, with the heap of the same server without objects. The latter has the
// same watches, but its namespaces option (ours) or label selectors (in-tree) exclude every object.
func memory(ctx context.Context, b *bench) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\theap without MiB\twith MiB\tadded MiB\t")
	for _, c := range []struct{ name, body, nothing string }{
		{"ours", oursBody, "namespaces none"}, {"in-tree", inTreeBody, "labels none=none\n        namespace_labels none=none"},
	} {
		empty, err := b.heap(ctx, c.name, with(c.body, c.nothing), "nope.ns-0.svc.clusterset.local.", dns.RcodeNameError)
		if err != nil {
			return err
		}
		full, err := b.heap(ctx, c.name, c.body, b.objects.headlessName(0), dns.RcodeSuccess)
		if err != nil {
			return err
		}
		const mib = 1 << 20
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t\n", c.name, empty/mib, full/mib, (full-empty)/mib)
	}
	return out.Flush()
}

var heapAllocRE = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// heap starts a server, waits until it has synced, which is when it gives the right answer to a query, and returns the bytes on its heap after a
// garbage collection.
func (b *bench) heap(ctx context.Context, name, body, asked string, rcode int) (low float64, err error) {
	s, err := b.start(name, ".", pprofBody+body)
	if err != nil {
		return 0, err
	}
	defer stop(s)
	if err := s.until(ctx, asked, func(r *dns.Msg) bool { return r.Rcode == rcode }); err != nil {
		return 0, err
	}
	for range 5 { // the lowest of five: a collection in progress holds memory that isn't the objects'
		resp, err := http.Get("http://127.0.0.1:" + s.aside + "/debug/pprof/heap?gc=1&debug=1") //nolint:noctx // it takes no time
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		m := heapAllocRE.FindSubmatch(text)
		if err != nil || m == nil {
			return 0, fmt.Errorf("no HeapAlloc in the heap profile: %v", err) //nolint:errorlint // it may be nil
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return 0, err
		}
		if low == 0 || v < low {
			low = v
		}
	}
	return low, nil
}

// startup starts the servers alternately and measures the time until the first right answer. They answer immediately, so that the measurement
// sees what a client sees before the first sync.
func startup(ctx context.Context, b *bench) error {
	now := strings.Replace(oursBody, "startup_timeout 60s", "startup_timeout 0s", 1)
	contenders := []block{
		{"ours", now}, {"ours-snapshot", with(now, "snapshot "+filepath.Join(b.dir, "state"))},
		{"in-tree", strings.Replace(inTreeBody, "startup_timeout 60s", "startup_timeout 1ms", 1)},
	}
	if _, err := b.startOnce(ctx, contenders[1]); err != nil { // it writes the state file when it stops
		return err
	}
	times := map[string][]float64{}
	for range b.rounds {
		for _, c := range contenders {
			took, err := b.startOnce(ctx, c)
			if err != nil {
				return err
			}
			times[c.name] = append(times[c.name], took.Seconds())
		}
	}
	for _, c := range contenders {
		fmt.Printf("%s: first right answer after %.2f s (median)\n", c.name, median(times[c.name]))
	}
	return nil
}

// startOnce starts a server, and stops it when it has given the first right answer.
func (b *bench) startOnce(ctx context.Context, c block) (time.Duration, error) {
	began := time.Now()
	s, err := b.start(c.name, ".", c.body)
	if err != nil {
		return 0, err
	}
	defer stop(s)
	for time.Since(began) < 2*time.Minute {
		if r, err := s.ask(b.objects.headlessName(0), dns.TypeA); err == nil && len(r.Answer) > 0 {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return 0, fmt.Errorf("%s never answered", s.name)
}
