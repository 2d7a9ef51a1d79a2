package clusterset_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// census counts the goroutines of this process by the function that created them. A plain count wouldn't show which
// function leaks one.
type census map[string]int

var beginner = regexp.MustCompile(`(?m)^created by (\S+)`)

func takeCensus() (census, map[string]string) {
	counts, stacks := census{}, map[string]string{}
	for stack := range strings.SplitSeq(allStacks(), "\n\n") {
		if m := beginner.FindStringSubmatch(stack); m != nil {
			counts[m[1]]++
			stacks[m[1]] = stack
		}
	}
	return counts, stacks
}

func allStacks() string {
	buf := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return string(buf[:n])
		}
		buf = make([]byte, 2*len(buf))
	}
}

// censusOfWatching waits until every kind is watched, which is a moment after it is synced, and then takes a census.
func censusOfWatching(t *testing.T) census {
	t.Helper()
	kube.Eventually(t, func() error {
		// A Reflector has one of these goroutines while it watches.
		if n := strings.Count(allStacks(), "(*Reflector).startResync("); n < len(liveKinds) {
			return fmt.Errorf("%d kinds are watched, want %d", n, len(liveKinds))
		}
		return nil
	})
	now, _ := takeCensus()
	return now
}

// expectCensus waits until no function has more goroutines than before.
func expectCensus(t *testing.T, before census) {
	t.Helper()
	kube.Eventually(t, func() error {
		now, stacks := takeCensus()
		for origin, n := range now {
			if n > before[origin] && !strings.HasPrefix(origin, "testing.") { // subtests
				return fmt.Errorf("%d goroutines more than before were begun by %s, such as\n%s", n-before[origin], origin, stacks[origin])
			}
		}
		return nil
	})
}

// metrics returns the metrics of this process.
func metrics() fleet.Samples {
	w := httptest.NewRecorder()
	promhttp.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return fleet.Samples(w.Body.String())
}

// metric returns the value of clusterset's counter or gauge with the labels, or 0 if there is none.
func metric(name string, labels ...string) float64 {
	return metrics().Sum("coredns_clusterset_"+name, labels...)
}

// expectMetric waits until a metric has a value.
func expectMetric(t *testing.T, want float64, name string, labels ...string) {
	t.Helper()
	kube.Eventually(t, func() error {
		if got := metric(name, labels...); got != want {
			return fmt.Errorf("%s%q is %v, want %v", name, labels, got, want)
		}
		return nil
	})
}
