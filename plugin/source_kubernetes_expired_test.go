package clusterset

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A proxy may answer every request with 410 Gone. The source must then send only few requests. The Reflector alone would repeat a
// WatchList as soon as it is answered, thousands of times a second.
func TestListsThatExpireAreRepeatedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked++
			if asked > 1000 {
				cancel()
			}
			return &http.Response{
				StatusCode: http.StatusGone, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"everything has expired"}`)),
			}, nil
		})}
		s := newSource(idle{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchedKinds[0].watch(ctx, &store{kind: watchedKinds[0], source: s}, &rest.Config{Host: "http://192.0.2.1"}, client, watchedKinds[0].versions[0])
		}()
		pass(time.Minute)
		cancel()
		<-done
		if asked < 5 || asked > 100 {
			t.Errorf("%d requests in a minute", asked)
		}
	})
}
