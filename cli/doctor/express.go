package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/clusterset/clusterset/cli/screen"
)

// Express is the state of a DNS server's express paths, from its metrics.
type Express struct {
	// Address is the address of the metrics.
	Address string
	// On lists the servers, such as dns://:53, by whether their express path is on.
	On  map[bool][]string
	Err error
}

// maxMetrics is the most bytes of a server's metrics that are read.
const maxMetrics = 16 << 20

// metricsAddress returns CoreDNS's default address of metrics, on the DNS server's host.
func metricsAddress(server string) string {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, "9153")
}

// express reads the gauge of a DNS server's express paths.
func express(ctx context.Context, address string) *Express {
	e := &Express{Address: address, On: map[bool][]string{}}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		e.Err = err
		return e
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		e.Err = err
		return e
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		e.Err = fmt.Errorf("%s says %s", request.URL, reply.Status)
		return e
	}
	for lines := bufio.NewScanner(io.LimitReader(reply.Body, maxMetrics)); lines.Scan(); {
		labels, isGauge := strings.CutPrefix(lines.Text(), `coredns_clusterset_express_enabled{server="`)
		if server, value, found := strings.Cut(labels, `"} `); isGauge && found {
			e.On[value == "1"] = append(e.On[value == "1"], server)
		}
	}
	return e
}

// checkExpress reports whether queries are answered on the express path. If they aren't, it isn't a problem: the plugin chain gives
// the same answers.
func checkExpress(f *Facts) []Finding {
	e := f.Express
	switch {
	case e == nil:
		return nil
	case e.Err != nil:
		return []Finding{skipped("%v; --dns-metrics says where the metrics of %s are", e.Err, f.DNSServer)}
	case len(e.On[true])+len(e.On[false]) == 0:
		return []Finding{skipped("the metrics at %s have no express path: the server has no clusterset plugin", e.Address)}
	}
	var all []Finding
	if off := e.On[false]; len(off) > 0 {
		all = append(all, ok("the express path is off at %s, where every query takes the plugin chain; the log of the DNS server says why (docs/cluster-dns.md)", screen.And(off)))
	}
	if on := e.On[true]; len(on) > 0 {
		all = append(all, ok("the express path is on at %s", screen.And(on)))
	}
	return all
}
