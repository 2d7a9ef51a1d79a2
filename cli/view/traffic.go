package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
)

// maxServers is how many DNS servers of a cluster are read, maxMetrics how much of one, and metricsPatience how long that may take.
const maxServers, maxMetrics, metricsPatience = 20, 4 << 20, 2 * time.Second

// counted matches what a DNS server counts of a service, as it writes that. Any pod can say that it is one: nothing else of its words is used.
var counted = regexp.MustCompile(`(?m)^coredns_clusterset_service_answers_total\{service_name="([a-z0-9-]*)",service_namespace="([a-z0-9-]*)",tier="([a-z]+)"\} ([\d.]{1,20}(?:e\+\d\d)?)$`)

// Traffic is how far the answers of a cluster's DNS servers have led since these started.
type Traffic struct {
	Servers int
	Failed  error // why there is none, or one isn't in it
	// Services have the numbers of answers by tier (rule A65): by namespace/name, of "others", which servers don't count one by one, and of "all".
	Services map[string]map[string]float64
}

// FetchTraffic reads the metrics of a cluster's DNS servers through its API server.
func FetchTraffic(ctx context.Context, c *objects.Cluster, pods []Pod) *Traffic {
	t := &Traffic{Services: map[string]map[string]float64{"all": {}}}
	servers := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Part != PartDNS || !p.Ready })
	if len(servers) == 0 {
		t.Failed = errors.New("no DNS server of clusterset is ready here")
	}
	for i := range servers[:min(len(servers), maxServers)] {
		if text, err := metrics(ctx, c, &servers[i]); err == nil {
			t.add(text)
		} else {
			t.Failed = c.Words(err)
		}
	}
	return t
}

func metrics(ctx context.Context, c *objects.Cluster, p *Pod) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsPatience)
	defer cancel()
	through, err := objects.PodClient(c.Config, maxMetrics)
	if err != nil {
		return nil, err
	}
	return through.CoreV1().Pods(p.Namespace).ProxyGet("http", p.Name, "9153", "metrics", nil).DoRaw(ctx)
}

func (t *Traffic) add(text []byte) {
	t.Servers++
	for _, m := range counted.FindAllSubmatch(text, -1) {
		service := cmp.Or(strings.Trim(string(m[2])+"/"+string(m[1]), "/"), "others")
		n, _ := strconv.ParseFloat(string(m[4]), 64) // 0 if it is no number
		for _, key := range []string{service, "all"} {
			if t.Services[key] == nil {
				t.Services[key] = map[string]float64{}
			}
			t.Services[key][string(m[3])] += n
		}
	}
}

// traffic shows the services of which most answers left the zone first.
func (s Screen) traffic(w *screen.Writer, t *Traffic) {
	head := screen.Cell{Text: "Answers   ", Colour: screen.Head}
	if t.Failed != nil {
		w.Line(head, screen.Cell{Text: fmt.Sprintf("not known of every server: %.500s", t.Failed), Colour: screen.Warn}) // a pod may have chosen the words
	}
	if t.Servers == 0 {
		return
	}
	w.Line(head, screen.Cell{Text: "of " + screen.Counted(t.Servers, "DNS server") + " here since they started; behind a ClusterSetIP kube-proxy chooses, which isn't counted"})
	var rows [][]screen.Cell
	share := func(part, of float64) string { return fmt.Sprintf("%.1f%%", 100*part/max(of, 1)) }
	left := func(key string) float64 { return t.Services[key]["region"] + t.Services[key]["any"] }
	for _, key := range slices.SortedFunc(maps.Keys(t.Services), func(a, b string) int { return cmp.Or(cmp.Compare(left(b), left(a)), cmp.Compare(a, b)) }) {
		a := t.Services[key]
		healthy := a["cluster"] + a["zone"] + left(key)
		all := healthy + a["degraded"]
		rows = append(rows, screen.T("  "+key, fmt.Sprintf("%.0f", all), share(left(key), healthy), share(a["any"], healthy), share(a["degraded"], all)))
	}
	w.Table([]string{"  SERVICE", "ANSWERS", "LEFT ZONE", "LEFT REGION", "LAST RESORT"}, rows)
}
