package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scrape reads the metrics of a process.
type scrape struct {
	addr string // of its current life
}

var scraper = http.Client{Timeout: 30 * time.Second}

func (s *scrape) read(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/metrics", http.NoBody)
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

// up returns nil once the process serves its metrics.
func (s *scrape) up(ctx context.Context) error {
	_, err := s.read(ctx)
	return err
}

// metric returns the sum over a metric's series that have all the labels, given as name and value in turn; 0 where there are
// none.
func (s *scrape) metric(name string, labels ...string) (float64, error) {
	text, err := s.read(context.Background())
	if err != nil {
		return 0, fmt.Errorf("scrape %s: %w", name, err)
	}
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 1<<20)
series:
	for lines.Scan() {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for i := 0; i < len(labels); i += 2 {
			if !strings.Contains(rest, fmt.Sprintf(`%s=%q`, labels[i], labels[i+1])) {
				continue series
			}
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("scrape %s: %w", line, err)
		}
		sum += value
	}
	return sum, lines.Err()
}
