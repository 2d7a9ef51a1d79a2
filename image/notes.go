package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// notes are the release's page: what CHANGELOG.md has for the version, or for what is unreleased where it has nothing, and what
// a reader needs to get it and to make it again.
func notes(o options, image, chart v1.Hash) ([]byte, error) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	changes, err := section(string(changelog), o.version)
	if err != nil {
		return nil, err
	}
	return page("RELEASE_NOTES.md", map[string]any{
		"Version": o.version, "Number": o.chartVersion(), "Changes": changes, "Image": o.reference() + "@" + image.String(), "Chart": chart, "Module": module,
		"Created": o.created.Unix(), "Go": runtime.Version(),
	})
}

var headingRE = regexp.MustCompile(`(?m)^## .*$`)

// section returns the text of a version's section, or of "Unreleased" where there is none of the version.
func section(changelog, version string) (string, error) {
	headings := headingRE.FindAllStringIndex(changelog, -1)
	for _, want := range []string{version, "Unreleased"} {
		for i, h := range headings {
			title, _, _ := strings.Cut(strings.TrimPrefix(changelog[h[0]:h[1]], "## "), " ") // a date may follow
			if title != want {
				continue
			}
			end := len(changelog)
			if i+1 < len(headings) {
				end = headings[i+1][0]
			}
			if text := strings.TrimSpace(changelog[h[1]:end]); text != "" {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section %q with something in it, nor %q", "## "+version, "## Unreleased")
}
