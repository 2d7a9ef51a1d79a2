package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
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

// Up returns nil once the process serves its metrics.
func (m *Metrics) Up(ctx context.Context) error {
	_, err := m.Read(ctx)
	return err
}

// reserve finds a free address to serve on.
func (m *Metrics) reserve() error {
	port, err := FreePort()
	m.Addr = "127.0.0.1:" + port
	return err
}
