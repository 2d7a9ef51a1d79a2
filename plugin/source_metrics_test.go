package clusterset_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var gaugeOf = regexp.MustCompile(`(?m)^(coredns_clusterset_\w+)\{.*source="([^"]*)"`)

// gaugeLabels returns the values of the label source in clusterset's gauges.
func gaugeLabels() map[string]bool {
	labels := map[string]bool{}
	for _, m := range gaugeOf.FindAllStringSubmatch(string(metrics()), -1) {
		if !strings.HasSuffix(m[1], "_total") {
			labels[m[2]] = true
		}
	}
	return labels
}

func stanzaOf(zone, source string) string {
	return fmt.Sprintf("%s:0 {\n    bind 127.0.0.1\n    clusterset {\n        startup_timeout 1ms\n        %s\n    }\n}\n", zone, source)
}

// A gauge of a source that no longer runs is misleading, and so is one gauge for two sources.
func TestGaugesAreThoseOfTheSourcesThatRun(t *testing.T) {
	dir := setupFiles(t)
	one, two := provideUnreachable(t, t.TempDir(), nil), provideUnreachable(t, t.TempDir(), nil)
	files := "manifests " + filepath.Join(dir, "objects")
	s := startLive(t, stanzaOf("a.test", one)+stanzaOf("b.test", two)+stanzaOf("c.test", one))
	expect := func(step string, want ...string) {
		t.Helper()
		got := gaugeLabels()
		for _, label := range want {
			if !got[label] {
				t.Errorf("%s: no gauge of %s", step, label)
			}
			delete(got, label)
		}
		if len(got) > 0 {
			t.Errorf("%s: gauges of %v", step, got)
		}
	}
	expect("three stanzas, two API servers", "kubernetes", "kubernetes-2")
	if err := s.reload(stanzaOf("a.test", two)); err != nil {
		t.Fatal(err)
	}
	expect("one API server", "kubernetes")
	if err := s.reload(stanzaOf("a.test", files)); err != nil {
		t.Fatal(err)
	}
	expect("files", "manifests")
	if err := s.reload(stanzaOf("a.test", one) + ".:0 {\n    startupfails\n}\n"); err == nil {
		t.Fatal("a plugin that fails to start doesn't fail the reload")
	}
	expect("a reload that failed", "manifests")
	expectMetric(t, 1, "source_synced", "source", "manifests", "kind", "EndpointSlice") // its start waited a millisecond only
	const none = ".:0 {\n    bind 127.0.0.1\n}\n"
	if err := s.reload(none); err != nil {
		t.Fatal(err)
	}
	expect("no stanza")
}

// A failed reload leaves the source that it started running, if the old server had no clusterset stanza. The next Corefile with a
// clusterset stanza stops it.
func TestAnAbandonedSourceIsEndedByTheNext(t *testing.T) {
	const none = ".:0 {\n    bind 127.0.0.1\n}\n"
	unreachable := provideUnreachable(t, t.TempDir(), nil)
	s := startLive(t, none)
	before, _ := takeCensus()
	for range 3 {
		if err := s.reload(stanzaOf("a.test", unreachable) + ".:0 {\n    bind 127.0.0.1\n    startupfails\n}\n"); err == nil {
			t.Fatal("a plugin that fails to start doesn't fail the reload")
		}
	}
	if err := s.reload(stanzaOf("a.test", "manifests "+filepath.Join(setupFiles(t), "objects"))); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(none); err != nil {
		t.Fatal(err)
	}
	expectCensus(t, before)
	if got := gaugeLabels(); len(got) > 0 {
		t.Errorf("gauges of %v", got)
	}
}
