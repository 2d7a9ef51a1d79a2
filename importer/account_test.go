package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/clusterset/clusterset/test/script"
)

// TestAccounts runs the scripts of testdata/accounts.txtar: whose changes the workers get, and when. Rule C39 of docs/spec/control-plane.md. An account
// has a thousand bytes at once, and a hundred a second; workers have two services of a cluster at a time. A line is a command:
//
//	changed thief a b c     a cluster changes services
//	work a 300 [again]      a worker reconciles a service and writes as many bytes; again: it has to be repeated
//	queue a b               which services have been handed to the workers since the last time
//	late thief 2            how many services of a cluster wait for its account
//	advance 3s              time goes on
func TestAccounts(t *testing.T) {
	script.Run(t, "testdata/accounts.txtar", func(*testing.T) map[string]script.Command {
		var queue []string
		a := newAccounts(clock.RealClock{}, Options{WriteRate: 100, WriteBurst: 1000, Concurrency: 3})
		a.add = func(service types.NamespacedName) { queue = append(queue, service.Name) }
		service := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
		return map[string]script.Command{
			"changed": func(args ...string) error {
				for _, name := range args[1:] {
					a.changed(args[0], service(name))
				}
				return nil
			},
			"work": func(args ...string) error {
				bytes, err := strconv.ParseInt(args[1], 10, 64)
				a.end(service(args[0]), a.begin(service(args[0])), bytes, len(args) == 2)
				return err
			},
			"queue": func(args ...string) error {
				a.mu.Lock() // under which services are handed over
				defer a.mu.Unlock()
				slices.Sort(queue)
				if got := queue; !slices.Equal(got, args) {
					return fmt.Errorf("handed over are %s", strings.Join(got, " "))
				}
				queue = nil
				return nil
			},
			"late": func(args ...string) error {
				a.mu.Lock()
				defer a.mu.Unlock()
				if got := fmt.Sprint(testutil.ToFloat64(lateGauge.WithLabelValues(args[0]))); got != args[1] {
					return fmt.Errorf("%s wait", got)
				}
				return nil
			},
		}
	})
}
