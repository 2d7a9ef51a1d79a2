package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const root = "../.."

// Each command of docs/demo.md prints what is there.
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
	page, err := os.ReadFile(filepath.Join(root, script))
	if err != nil {
		t.Fatal(err)
	}
	demo := newTour(t.Output(), root, base, bin)
	defer demo.stop()
	played, err := demo.play(t.Context(), string(page))
	if err != nil {
		t.Fatal(err)
	}
	if played != string(page) {
		t.Error("the page isn't played as it is written")
	}
}
