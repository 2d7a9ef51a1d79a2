package e2e

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	testfleet "github.com/clusterset/clusterset/test/fleet"
)

// scrape reads the metrics of a process.
type scrape struct{ testfleet.Metrics }

// metric returns the sum over a metric's series that have all the labels, given as alternating names and values; 0 if there
// are none.
func (s *scrape) metric(name string, labels ...string) (float64, error) {
	text, err := s.Read(context.Background())
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
