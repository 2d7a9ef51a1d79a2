package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/test/largeset"
	"github.com/clusterset/clusterset/test/page"
)

// hub returns a console with the objects in testdata/hub.yaml, and those objects.
func hub(t testing.TB) (*Server, []runtime.Object) {
	t.Helper()
	objects, _, err := manifests.Objects("testdata/hub.yaml", connect.NewScheme())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{})
	s.SetRecords(objects)
	hear(s, map[string]view.Heartbeat{"beijing": {Renewed: time.Date(2026, 2, 3, 0, 2, 0, 0, time.UTC)}}, time.Time{})
	s.AddSource(Source{Role: RoleHub, Context: "hub", Server: "https://hub", State: Live})
	return s, objects
}

// hear sets the heartbeats, and when the hub process last said that it runs.
func hear(s *Server, heard map[string]view.Heartbeat, process time.Time) {
	hub := *s.current().hub
	hub.Heard, hub.Process = heard, process
	s.SetHub(&hub)
}

var volatile = regexp.MustCompile(`"(time|since)": "[^"]*"`)

// Each path answers with the content of its file in testdata: the state of a set, also with communities and with networks, and after changes.
// UPDATE=1 rewrites the files.
func TestViews(t *testing.T) {
	whole, _ := hub(t)
	at := map[string]*Server{}
	for _, name := range []string{"communities", "networks"} {
		objects, _, err := manifests.Objects("testdata/"+name+".yaml", connect.NewScheme())
		if err != nil {
			t.Fatal(err)
		}
		at[name] = New(Options{})
		at[name].SetRecords(objects)
	}
	after := "&changes=" + url.QueryEscape(`[{"down":["beijing"]},{"undrain":["tianjin"]},{"place":{"cluster":"lyon","region":"cn-north-1"}},{"unexport":{"service":"shop/web","from":"shanghai"}}]`)
	others := "&changes=" + url.QueryEscape(`[{"place":{"cluster":"tianjin","communities":["payments","edge-asia"]}},{"policy":{"service":"shop/ledger","exportTo":["-"]}}]`)
	for name, target := range map[string]string{
		"map":              "/api/map",
		"map-after":        "/api/map?" + after,
		"services":         "/api/services",
		"services-search":  "/api/services?q=shop/&conflicts=1&cluster=tianjin&sort=ready&desc=1",
		"services-address": "/api/services?q=10.97.0.10",
		"services-name":    "/api/services?q=db.shop.svc.clusterset.local",
		"service":          "/api/service?service=shop/web",
		"service-headless": "/api/service?service=shop/db&from=tianjin",
		"service-after":    "/api/service?service=shop/web" + after,
		"endpoints":        "/api/endpoints?service=shop/web&place=tianjin/cn-north-1c/cn-north-1",
		"endpoints-global": "/api/endpoints?service=shop/web&zone=global&place=beijing/cn-north-1a/cn-north-1" + after,
		"whatif":           "/api/whatif?" + after,

		"communities-map":           "/api/map?" + others,
		"communities-service":       "/api/service?service=shop/web",
		"communities-service-after": "/api/service?service=shop/web" + others,
		"communities-ledger":        "/api/service?service=shop/ledger" + others,
		"communities-endpoints":     "/api/endpoints?service=shop/web&place=shanghai/cn-north-1a/cn-north-1",

		"networks-map":     "/api/map?changes=" + url.QueryEscape(`[{"place":{"cluster":"shanghai","network":"core"}}]`),
		"networks-service": "/api/service?service=shop/web&changes=" + url.QueryEscape(`[{"place":{"cluster":"shanghai","network":"core"}}]`),
		"networks-web":     "/api/endpoints?service=shop/web&place=beijing/cn-north-1a/cn-north-1",
		"networks-db":      "/api/endpoints?service=shop/db&place=beijing/cn-north-1a/cn-north-1",
	} {
		of, _, _ := strings.Cut(name, "-")
		answers(t, cmp.Or(at[of], whole), name, target)
	}
}

// What was computed of the hub's records stays as long as these are the same.
func TestTheSameRecordsAreTheSameSet(t *testing.T) {
	s, objects := hub(t)
	was := s.current().set
	again, _ := hub(t)
	if s.SetHub(again.current().hub); s.current().set != was {
		t.Error("the same records are another set")
	}
	if s.SetRecords(objects[1:]); s.current().set == was {
		t.Error("other records are the same set")
	}
}

// In a cluster that isn't in the set, or leaves it, no name has an endpoint.
func TestEndpointsOutsideTheSet(t *testing.T) {
	s, _ := hub(t)
	leaves := "/api/endpoints?service=shop/web&place=beijing/cn-north-1a/cn-north-1&changes=" + url.QueryEscape(`[{"leave":["beijing"]}]`)
	for target, before := range map[string]bool{leaves: true, "/api/endpoints?service=shop/web&place=typo": false, "/api/endpoints?service=shop/web&place=-/z/r": false} {
		if got := answer[Endpoints](t, s, target); (got.Before != nil) != before || got.After != nil {
			t.Errorf("%s: %+v", target, got)
		}
	}
}

// answer returns what a request is answered with.
func answer[T any](t *testing.T, s *Server, target string) (is T) {
	t.Helper()
	got := ask(t, s, target, nil)
	if err := json.Unmarshal(got.Body.Bytes(), &is); err != nil || got.Code != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", target, got.Code, err, got.Body)
	}
	return is
}

// answers compares the answer to a request with its file in testdata.
func answers(t *testing.T, s *Server, name, target string) {
	t.Helper()
	got := ask(t, s, target, nil)
	body := got.Body.String()
	if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("%s: status %d, %v\n%s", name, got.Code, got.Header(), body)
	}
	if strings.ContainsAny(body, "<>&") {
		t.Errorf("%s: what objects say can be read as HTML:\n%s", name, body)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(body), "", "  "); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	page.Fresh(t, "testdata/"+name+".json", volatile.ReplaceAllString(indented.String(), `"$1": "…"`))
}

func TestAnAnswerStopsWithItsRequest(t *testing.T) {
	s := New(Options{})
	s.SetRecords(largeset.Records(2, 2))
	whole := &url.URL{Path: "/api/whatif", RawQuery: "changes=" + url.QueryEscape(`[{"drain":["cluster-007"]}]`)}
	got := ask(t, s, whole.String(), func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		*r = *r.WithContext(ctx)
	})
	if want := context.Canceled.Error(); !strings.Contains(got.Body.String(), want) {
		t.Errorf("a request that was taken back is answered with %d bytes", got.Body.Len())
	}
}
