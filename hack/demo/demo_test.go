package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/test/fleet"
)

const root = "../.."

// The demo's answers are as promised, and docs/demo.md is its transcript.
func TestTranscriptIsWhatTheDemoShows(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a hub and three clusters")
	}
	log.SetLogger(logr.Discard())
	base := t.TempDir()
	release, err := claim(filepath.Join(base, folder))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	bin, err := build(t.Context(), t.Output(), root, filepath.Join(base, "bin"), "-s -w")
	if err != nil {
		t.Fatal(err)
	}
	demo := newTour(t.Context(), &page{terminal: t.Output()}, root, base, bin)
	defer demo.stop()
	if err := demo.tell(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	if got := demo.document(); got != string(want) {
		t.Errorf("docs/demo.md is not what the demo shows; make demo TRANSCRIPT=docs/demo.md rewrites it. %s", difference(string(want), got))
	}
}

// difference describes the first lines that differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) {
			return "It ends before\n  " + w[i]
		}
		if w[i] != g[i] {
			return "It has\n  " + w[i] + "\nand the demo shows\n  " + g[i]
		}
	}
	return "It lacks\n  " + g[len(w)]
}

// normal makes the output of two runs equal and leaves columns where they are.
func TestNormal(t *testing.T) {
	demo := newTour(t.Context(), &page{}, root, t.TempDir(), fleet.Binaries{})
	for i, m := range demo.members() {
		m.DNS.Port = port(i)
	}
	demo.minhang.DNS.Port = "23456"
	run := func(secondPort, hub, first, second, age, expired, id string) string {
		demo.shijiazhuang.DNS.Port = secondPort
		return demo.normal(strings.Join([]string{
			"$ dig @127.0.0.1 -p " + secondPort + " web.shop.svc.global +noall +answer   # in shijiazhuang",
			"web.shop.svc.global.\t5\tIN\tA\t" + first,
			"web.shop.svc.global.\t5\tIN\tA\t" + second,
			"Hub       https://127.0.0.1:" + hub + " reachable (" + id + "ms)",
			"minhang *     Ready    shanghai  south   " + age + "        2",
			"shijiazhuang  Expired  " + expired + "  0",
			"db-0  10.2.1.10",
			";; ->>HEADER<<- opcode: QUERY, status: NXDOMAIN, id: " + id,
		}, "\n"))
	}
	a := run("5302", "40001", "10.1.0.140", "10.1.0.250", "0s ", "18s ago  ", "1")
	b := run("29999", "31234", "10.1.0.222", "10.1.0.131", "12s", "1m18s ago", "65535")
	if a != b {
		t.Errorf("not alike:\n%s\n%s", a, b)
	}
	if !strings.Contains(a, "db-0  10.2.1.10") {
		t.Errorf("a pod's address is what the manifest says:\n%s", a)
	}
	if !strings.Contains(a, "minhang *     Ready    shanghai  south   1s         2\nshijiazhuang  Expired  16s ago    0\n") {
		t.Errorf("columns moved:\n%s", a)
	}
}
