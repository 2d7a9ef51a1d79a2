package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"text/tabwriter"

	"github.com/miekg/dns"
)

// memory compares the heap of each server, after a garbage collection, with the heap of the same server without objects. The latter has the
// same watches, but its namespaces option (ours) or label selectors (in-tree) exclude every object.
func memory(ctx context.Context, b *bench) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\theap without MiB\twith MiB\tadded MiB\t")
	for _, c := range []struct{ name, body, nothing string }{
		{ours, oursBody, "namespaces none"}, {inTree, inTreeBody, "labels none=none\n        namespace_labels none=none"},
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
	s, err := b.start(name, "udp", "    pprof 127.0.0.1:ASIDE\n"+body)
	if err != nil {
		return 0, err
	}
	defer stop(s)
	if err := s.await(ctx, asked, rcode); err != nil {
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
