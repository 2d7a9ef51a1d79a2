package hostile

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// observed is a process whose memory is watched.
type observed struct {
	name string
	pid  int
}

// limits are the processes whose memory is in the table, by its columns, and the chart's memory limits for them in MiB. The hub's API server
// isn't ours, and has none: a quota can bound the number of records there, not their bytes.
var limits = []struct {
	name  string
	limit int
}{{"agent", 512}, {"DNS server", 256}, {"hub process", 256}, {"hub's API server", 0}}

// processes are the processes of these names.
func (w *witness) processes() []observed {
	return []observed{{limits[0].name, w.reader.Agent.PID()}, {limits[1].name, w.reader.DNS.Program.PID()}, {limits[2].name, w.hub.Process.PID()}, {limits[3].name, w.hub.Plane.APIServerPID()}}
}

// peaks returns the peaks of their memory since it was last reset, in MiB.
func (w *witness) peaks() (peaks []int) {
	for _, p := range w.processes() {
		peaks = append(peaks, peak(w, p.pid))
	}
	return peaks
}

var vmHWM = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peak returns the peak of a process's resident memory in MiB (proc_pid_status(5)).
func peak(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := vmHWM.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kib, _ := strconv.Atoi(string(found[1]))
	return kib >> 10
}

// resetPeak makes the current memory of a process its peak (proc_pid_clear_refs(5)).
func resetPeak(t testing.TB, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

var writeRequest = regexp.MustCompile(`(?m)^apiserver_request_total\{.*group="(?:discovery\.k8s\.io|multicluster\.x-k8s\.io|dns\.fabedge\.io|clusterset\.dev)".*verb="(?:POST|PUT|PATCH|APPLY|DELETE)"[^}]*\} (\S+)$`)

// written returns how many writes of imports the reader's API server has counted.
func (w *witness) written() (n int) {
	w.Helper()
	client, err := kubernetes.NewForConfig(w.reader.Plane.Config())
	if err != nil {
		w.Fatal(err)
	}
	metrics, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	for _, found := range writeRequest.FindAllSubmatch(metrics, -1) {
		count, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			w.Fatal(err)
		}
		n += int(count)
	}
	return n
}
