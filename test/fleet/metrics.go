package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset/clusterset/test/freeport"
)

// Metrics are the metrics that a process serves.
type Metrics struct {
	Addr string // host:port of the current process
}

// scraper doesn't ask for compression: a frequently scraped agent would spend more time on that than on its work.
var scraper = http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute}

// Read returns the metrics in Prometheus's text format.
func (m *Metrics) Read(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := scraper.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// Samples reads the metrics.
func (m *Metrics) Samples(ctx context.Context) (Samples, error) {
	text, err := m.Read(ctx)
	return Samples(text), err
}

// Sum reads the metrics and returns [Samples.Sum].
func (m *Metrics) Sum(name string, labels ...string) (float64, error) {
	s, err := m.Samples(context.Background())
	if err != nil {
		return 0, fmt.Errorf("scrape %s: %w", name, err)
	}
	return s.Sum(name, labels...), nil
}

// Samples are metrics in Prometheus's text format.
type Samples string

// Sum returns the sum of a metric's series that have all the labels, which are alternating names and values. It is 0 if there
// are none.
func (s Samples) Sum(name string, labels ...string) (sum float64) {
series:
	for line := range strings.Lines(string(s)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			if !strings.Contains(rest, fmt.Sprintf(`%s=%q`, labels[i], labels[i+1])) {
				continue series
			}
		}
		value, _ := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64) // programs of ours write only numbers
		sum += value
	}
	return sum
}

// Up returns nil once the process serves its metrics.
func (m *Metrics) Up(ctx context.Context) error {
	_, err := m.Read(ctx)
	return err
}

// reserve sets Addr to a free address.
func (m *Metrics) reserve() error {
	port, err := freeport.Find()
	m.Addr = "127.0.0.1:" + port
	return err
}
