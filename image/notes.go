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
	return fmt.Appendf(nil, `# clusterset %s

%s

## Get it

- Image: `+"`%s@%s`"+`
- Chart: version %s, `+"`%s`"+`; as an archive `+"`clusterset-%s.tgz`"+`
- Command line: `+"`clusterset-<os>-<arch>.tar.gz`"+`; for Homebrew `+"`clusterset.rb`"+`, for krew `+"`clusterset.yaml`"+`; or `+"`go install %s/cmd/clusterset@%s`"+`
- `+"`clusterset-sbom.cdx.json`"+` lists the parts of both programs with their licences, whose texts are in `+"`THIRD_PARTY_NOTICES.txt`"+`. `+"`sha256sum -c SHA256SUMS`"+` checks what was downloaded.

`+"`SOURCE_DATE_EPOCH=%d make release VERSION=%s`"+` with %s makes the same files again.
`, o.version, changes, o.reference(), image, o.chartVersion(), chart, o.chartVersion(), module, o.version, o.created.Unix(), o.version, runtime.Version()), nil
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
