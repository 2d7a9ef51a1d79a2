package chaos

import (
	"errors"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/test/faultproxy"
)

// requestFaults are bad answers of API servers, and of proxies in front of them. Each affects one client: an agent on its
// hub or in its own cluster, a DNS server, or the hub process.
var requestFaults = []fault{
	{group: "API server", name: "500 Internal Server Error", promise: noChange, does: answering(faultproxy.Status(http.StatusInternalServerError, metav1.StatusReasonInternalError))},
	{group: "API server", name: "429 Too Many Requests, Retry-After: 1", promise: noChange, does: answering(faultproxy.Status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Retry-After", "1"))},
	{group: "API server", name: "429 Too Many Requests", promise: noChange, does: answering(faultproxy.Status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests))},
	{group: "API server", name: "503 of a load balancer", promise: noChange, does: answering(faultproxy.BadGateway)},
	{group: "API server", name: "401 Unauthorized", promise: noChange, does: answering(faultproxy.Status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized))},
	{group: "API server", name: "403 Forbidden", promise: noChange, does: answering(faultproxy.Status(http.StatusForbidden, metav1.StatusReasonForbidden))},
	{group: "API server", name: "404 Not Found", promise: noChange, does: answering(faultproxy.Status(http.StatusNotFound, metav1.StatusReasonNotFound))},
	{group: "API server", name: "409 Conflict", promise: noChange, does: answering(faultproxy.Status(http.StatusConflict, metav1.StatusReasonConflict))},
	{group: "API server", name: "no answer", promise: noChange, does: intercepting(func(c *run, w *wire, api *faultproxy.API) {
		api.Begin(api.Silence)
		c.duringAnswers(w, api, nil)
	})},
	{group: "API server", name: "connections break in place of answers", promise: noChange, does: answering(faultproxy.Break)},
	{group: "API server", name: "410 Gone: watches expire, as does every new one", promise: noChange, does: intercepting(func(c *run, w *wire, api *faultproxy.API) {
		c.until(func() error { return watching(api) })
		api.Begin(faultproxy.Status(http.StatusGone, metav1.StatusReasonExpired))
		c.duringAnswers(w, api, faultproxy.Expired)
	})},
	{group: "API server", name: "watches expire, again and again", promise: noChange, does: ending(faultproxy.Expired)},
	{group: "API server", name: "watches break in the middle of an event", promise: noChange, does: ending(faultproxy.Torn)},
}

// intercepting returns a fault between one client and an API server.
func intercepting(does func(c *run, w *wire, api *faultproxy.API)) func(*run) {
	return func(c *run) {
		w := c.anyPlace().wire(c)
		api, err := w.intercept()
		c.must(err)
		does(c, w, api)
		w.direct()
	}
}

// answering returns a fault in which every request of one client gets the given answer.
func answering(answer http.HandlerFunc) func(*run) {
	return intercepting(func(c *run, w *wire, api *faultproxy.API) {
		api.Begin(answer)
		c.duringAnswers(w, api, nil)
	})
}

// ending returns a fault in which all watches of one client end, again and again. There must be at least one each time.
func ending(last func(string) ([]byte, error)) func(*run) {
	return intercepting(func(c *run, _ *wire, api *faultproxy.API) {
		for range 3 + c.IntN(5) {
			c.until(func() error { return watching(api) })
			c.touched("%d watches ended", len(api.Watched()))
			c.must(api.End(last))
			c.churn(2)
		}
	})
}

// duringAnswers ends the watches, so that the client has to ask again, and waits until the fault has answered some
// requests.
func (c *run) duringAnswers(w *wire, api *faultproxy.API, last func(string) ([]byte, error)) {
	c.Helper()
	c.until(func() error {
		if api.Faulted() < 3 {
			// End them again: a watch that was requested before the fault may begin after the last End.
			return errors.Join(api.End(last), errNotYet)
		}
		return nil
	})
	c.churn(5)
	c.watch(c.between(2*time.Second, 10*time.Second))
	c.touched("%d requests of %s got the fault's answer", api.Faulted(), w.client)
}

func watching(api *faultproxy.API) error {
	if len(api.Watched()) == 0 {
		return errNotYet
	}
	return nil
}
