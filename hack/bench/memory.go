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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

var heapAllocRE = regexp.MustCompile(`# HeapAlloc = (\d+)`)

// memory compares the heap of each server, after a garbage collection, with the heap of the same server without objects. The latter has the
// same watches, but its namespaces option (ours) or label selectors (in-tree) exclude every object.
func memory(ctx context.Context, b *bench) error {
	contenders := []struct{ name, zone, full, empty string }{
		{"ours", "clusterset.local", oursBody, "    clusterset {\n        kubeconfig KUBECONFIG\n        namespaces none\n        startup_timeout 60s\n    }"},
		{"in-tree", ".", inTreeBody, "    kubernetes cluster.local clusterset.local {\n        kubeconfig KUBECONFIG\n        multicluster clusterset.local\n        labels none=none\n        namespace_labels none=none\n        startup_timeout 60s\n    }"},
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\theap without MiB\twith MiB\tadded MiB\t")
	for _, c := range contenders {
		empty, err := b.heap(ctx, c.name, c.zone, pprofBody+c.empty, "")
		if err != nil {
			return err
		}
		full, err := b.heap(ctx, c.name, c.zone, pprofBody+c.full, b.objects.headlessName(0))
		if err != nil {
			return err
		}
		const mib = 1 << 20
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t\n", c.name, empty/mib, full/mib, (full-empty)/mib)
	}
	return out.Flush()
}

// heap starts a server, waits until it has synced, and returns the bytes on its heap after a garbage collection. The server has synced when
// it answers the awaited name or, if that is empty, when it returns NXDOMAIN for a name that doesn't exist.
func (b *bench) heap(ctx context.Context, name, zone, body, awaited string) (float64, error) {
	s, err := b.start(ctx, name, zone, body)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if awaited != "" {
		err = s.await(ctx, awaited)
	} else {
		err = s.awaitSync(ctx)
	}
	if err != nil {
		return 0, err
	}
	port, err := b.secondPort(name)
	if err != nil {
		return 0, err
	}
	low := 0.0
	for range 5 { // the lowest of five: a collection in progress holds memory that isn't the objects'
		v, err := heapAlloc(ctx, port)
		if err != nil {
			return 0, err
		}
		if low == 0 || v < low {
			low = v
		}
	}
	return low, nil
}

func heapAlloc(ctx context.Context, port int) (float64, error) {
	text, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/heap?gc=1&debug=1", port))
	if err != nil {
		return 0, err
	}
	m := heapAllocRE.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no HeapAlloc in the heap profile")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// secondPort returns the port of the first pprof or prometheus line in a server's Corefile. If both are there, pprof is first.
func (b *bench) secondPort(name string) (int, error) {
	text, err := os.ReadFile(b.dir + "/" + name + ".Corefile")
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?:pprof|prometheus) 127\.0\.0\.1:(\d+)`).FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("no second port in %s's Corefile", name)
	}
	return strconv.Atoi(string(m[1]))
}

// startup starts the servers alternately and measures the time until the first right answer. An NXDOMAIN or empty answer for a name that
// exists counts as wrong; a correct server gives none.
func startup(ctx context.Context, b *bench) error {
	times := map[string][]float64{}
	wrong := map[string]int{}
	kept := strings.Replace(oursNow, "startup_timeout 0s", "startup_timeout 0s\n        snapshot "+filepath.Join(b.dir, "state"), 1)
	contenders := []struct{ name, zone, body string }{
		{"ours", "clusterset.local", oursNow}, {"ours-snapshot", "clusterset.local", kept}, {"in-tree", ".", inTreeNow},
	}
	if err := b.writeSnapshot(ctx, kept); err != nil {
		return err
	}
	for range b.rounds {
		for _, c := range contenders {
			began := time.Now()
			s, err := b.start(ctx, c.name, c.zone, c.body)
			if err != nil {
				return err
			}
			w, err := s.firstAnswer(ctx, b.objects.headlessName(0))
			took := time.Since(began)
			s.stop()
			if err != nil {
				return err
			}
			times[c.name] = append(times[c.name], took.Seconds())
			wrong[c.name] += w
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\tfirst right answer s (median)\twrong before it\t")
	for _, c := range contenders {
		fmt.Fprintf(out, "%s\t%.2f\t%d\t\n", c.name, median(times[c.name]), wrong[c.name])
	}
	fmt.Fprintf(out, "ratio\t%.2f\t\t\n", median(times["ours"])/median(times["in-tree"]))
	return out.Flush()
}

// writeSnapshot makes a server write its state file.
func (b *bench) writeSnapshot(ctx context.Context, body string) error {
	s, err := b.start(ctx, "ours-snapshot", "clusterset.local", body)
	if err != nil {
		return err
	}
	defer s.stop() // it writes the file when it stops
	_, err = s.firstAnswer(ctx, b.objects.headlessName(0))
	return err
}

// With these configurations, servers answer immediately, so that the measurement sees what a client sees before the first sync.
const (
	oursNow = `    clusterset {
        kubeconfig KUBECONFIG
        startup_timeout 0s
    }`
	inTreeNow = `    kubernetes cluster.local clusterset.local {
        kubeconfig KUBECONFIG
        multicluster clusterset.local
        startup_timeout 1ms
    }`
)

func (s *server) firstAnswer(ctx context.Context, name string) (wrong int, err error) {
	for range 20000 {
		r, err := s.ask(name, dns.TypeA)
		switch {
		case err != nil || r.Rcode == dns.RcodeServerFailure:
		case len(r.Answer) > 0:
			return wrong, nil
		default:
			wrong++
		}
		select {
		case <-ctx.Done():
			return wrong, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return wrong, fmt.Errorf("%s never answered %s", s.name, name)
}

// updates changes endpoints a thousand times and reads the time from the watch event to the answers from the server's own histogram.
func updates(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, "ours", "clusterset.local", "    prometheus 127.0.0.1:PORT\n"+oursBody)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.await(ctx, b.objects.headlessName(0)); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(b.plane.Config())
	if err != nil {
		return err
	}
	const changes = 1000
	before, err := s.cpu()
	if err != nil {
		return err
	}
	for i := range changes {
		n := i % b.objects.headless
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/endpoints/0/addresses/0","value":"10.250.%d.%d"}]`, i/250, i%250+1)
		_, err := client.DiscoveryV1().EndpointSlices(fmt.Sprintf("ns-%d", n%namespaces)).Patch(ctx, fmt.Sprintf("hl-%d-1", n), types.JSONPatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	port, err := b.secondPort("ours")
	if err != nil {
		return err
	}
	metrics, err := get(ctx, fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return err
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "watch event to answer within\tof all updates\t")
	var total float64
	bucket := regexp.MustCompile(`coredns_clusterset_apply_duration_seconds_bucket\{le="([^"]+)"\} (\d+)`)
	all := bucket.FindAllSubmatch(metrics, -1)
	if len(all) == 0 {
		return fmt.Errorf("no coredns_clusterset_apply_duration_seconds in the metrics")
	}
	total, _ = strconv.ParseFloat(string(all[len(all)-1][2]), 64)
	for _, m := range all {
		n, _ := strconv.ParseFloat(string(m[2]), 64)
		fmt.Fprintf(out, "%s s\t%.2f %%\t\n", m[1], 100*n/total)
	}
	fmt.Fprintf(out, "CPU per update, watch decoding included\t%.0f µs\t\n", float64((after-before).Microseconds())/changes)
	return out.Flush()
}
