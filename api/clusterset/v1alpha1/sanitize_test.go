package v1alpha1

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/cases"
)

func ptr[T any](v T) *T { return &v }

// compare checks that the errors begin with the wanted texts, in order.
func compare(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d errors; want %d: %v", len(got), len(want), got.ToAggregate())
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i].Error(), want[i]) {
			t.Errorf("error %d is\n%s\nwant\n%s…", i, got[i], want[i])
		}
	}
}

// sanitizes fails the test unless the record sanitizes to want, which is nil if it is dropped, with these errors, and is
// unchanged itself.
func sanitizes[T any, P record[T]](t *testing.T, in, want P, errs []string) {
	t.Helper()
	before := in.DeepCopy()
	got, found := in.Sanitized()
	compare(t, found.List(), errs)
	if !equality.Semantic.DeepEqual(in, P(before)) {
		t.Error("the record itself was changed")
	}
	if !equality.Semantic.DeepEqual(P(got), want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

type record[T any] interface {
	*T
	DeepCopy() *T
	Sanitized() (*T, api.LeftOut)
}

// sanitizeAll does so with each case of a file.
func sanitizeAll[T any, P record[T]](t *testing.T, path string, valid P) {
	for _, c := range cases.Read(t, path).Cases {
		t.Run(c.Name, func(t *testing.T) {
			var want P
			if !c.Dropped {
				want = cases.Object[T](t, valid, c.Left)
			}
			sanitizes(t, P(cases.Object[T](t, valid, c.Change)), want, c.Errors)
		})
	}
}

// FuzzSanitized checks what callers rely on for any record that parses: Sanitized doesn't panic, doesn't change the record, and
// returns a copy that is valid by its own rules and stays the same when sanitized again.
func FuzzSanitized(f *testing.F) {
	f.Add(mustJSON(f, service(nil)))
	f.Add(mustJSON(f, endpoints(nil)))
	f.Add([]byte(`{"metadata":{"name":"a.b"},"spec":{"serviceName":"a","serviceNamespace":"b","type":"Headless",` +
		`"exportedAt":"2026-01-02T03:04:05Z","ports":[{},{"port":1},{"port":2,"name":"x","targetPort":""}],"clusterIPs":["1.2.3.4"],` +
		`"ipFamilies":["IPv4","IPv4"],"exportedLabels":{"":"","a":" "},"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":0}}}}`))
	f.Add([]byte(`{"metadata":{"name":"a.b.c"},"spec":{"serviceName":"a","serviceNamespace":"b","addressType":"IPv6",` +
		`"endpoints":[{"addresses":["::ffff:1.2.3.4","fd00::1"],"zone":" ","hostname":""},{}],"ports":[{},{"port":0},{"name":"x","port":1}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s ExportedService
		if json.Unmarshal(data, &s) == nil {
			check(t, &s, (*ExportedService).Sanitized)
		}
		var e ExportedEndpoints
		if json.Unmarshal(data, &e) == nil {
			check(t, &e, (*ExportedEndpoints).Sanitized)
		}
		var m MemberCluster
		if json.Unmarshal(data, &m) == nil {
			m.Validate()
		}
	})
}

func check[T any](t *testing.T, in *T, sanitized func(*T) (*T, api.LeftOut)) {
	t.Helper()
	before := mustJSON(t, in)
	out, left := sanitized(in)
	if !bytes.Equal(before, mustJSON(t, in)) {
		t.Fatal("the record itself was changed")
	}
	if out == nil {
		if left.Count == 0 {
			t.Fatal("nothing kept and nothing wrong")
		}
		return
	}
	if len(left.Errors) > api.MaxErrors || left.Count < len(left.Errors) {
		t.Fatalf("%d errors for %d values", len(left.Errors), left.Count)
	}
	again, left := sanitized(out)
	if left.Count > 0 {
		t.Fatalf("the copy is wrong: %v", left)
	}
	if !bytes.Equal(mustJSON(t, out), mustJSON(t, again)) {
		t.Fatal("sanitizing again changes it")
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
