package connect

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/internal/door/store"
)

// offline answers no request.
type offline struct{}

func (offline) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("offline") }

// Rule C72 of docs/spec/control-plane.md: what an agent has to write at most isn't delayed, and requests without end are.
func TestHubIsAskedLessOftenThanAStormWould(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := NewHub(&rest.Config{Host: "https://hub.example", Transport: offline{}, QPS: -1}, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(n int) time.Duration {
			began := time.Now()
			for range n {
				if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b"}, &coordinationv1.Lease{}); err == nil {
					t.Fatal("an answer from nowhere")
				}
			}
			return time.Since(began)
		}
		if took := ask(2*5000 + 100); took > 0 {
			t.Errorf("the records of 5,000 services wait for %s", took)
		}
		ask(hubBurst)
		if took := ask(10 * hubQPS); took < 9*time.Second {
			t.Errorf("%d more requests took only %s", 10*hubQPS, took)
		}
		time.Sleep(time.Second) //nolint:forbidigo // synctest's clock
		if took := ask(hubQPS - 1); took > 0 {
			t.Errorf("what a second allows waits for %s", took)
		}
	})
}
