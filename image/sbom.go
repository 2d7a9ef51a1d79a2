package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const module = "github.com/clusterset/clusterset"

// sbom lists the parts of the programs with their licences, over all platforms.
func sbom(o options, programs programParts) ([]byte, error) {
	parts := programs.all()
	b := cdx.NewBOM()
	whole := ours(o.version, "")
	b.Metadata = &cdx.Metadata{Component: &whole}
	if o.created.Unix() != 0 {
		b.Metadata.Timestamp = o.created.Format(time.RFC3339)
	}
	var components []cdx.Component
	var dependencies []cdx.Dependency
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		c := ours(o.version, "cmd/"+name)
		c.Name = name
		components = append(components, c)
		on := slices.Sorted(maps.Keys(programs[name]))
		dependencies = append(dependencies, cdx.Dependency{Ref: c.BOMRef, Dependencies: &on})
	}
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		components = append(components, parts[ref].component())
	}
	b.Components, b.Dependencies = &components, &dependencies
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b)
	return out.Bytes(), err
}

// ours describes our module, or a package in it.
func ours(version, in string) cdx.Component {
	ref := purl(module, version, in)
	return cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: module, Version: version, PackageURL: ref,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
}

// purl is the package URL of a Go module, or of a package in it: https://github.com/package-url/purl-spec.
func purl(path, version, in string) string {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	if in != "" {
		url += "#" + in
	}
	return url
}
