package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const module = "github.com/clusterset/clusterset"

// sbom lists the Go modules in the programs of all platforms, as the linker noted them in each, and Go's standard library.
func sbom(o options) ([]byte, error) {
	parts := map[string]cdx.Component{}
	needs := map[string]map[string]bool{} // of each program, the references of its parts
	for _, p := range o.platforms {
		for _, name := range programs(p) {
			info, err := buildinfo.ReadFile(o.binary(p, name))
			if err != nil {
				return nil, fmt.Errorf("list the modules of %s for %s: %w", name, p, err)
			}
			if needs[name] == nil {
				needs[name] = map[string]bool{}
			}
			add := func(path, version string) {
				c := component(cdx.ComponentTypeLibrary, path, version, "")
				parts[c.BOMRef] = c
				needs[name][c.BOMRef] = true
			}
			add("std", strings.TrimPrefix(info.GoVersion, "go"))
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				add(m.Path, m.Version)
			}
		}
	}
	b := cdx.NewBOM()
	whole := component(cdx.ComponentTypeApplication, module, o.version, "")
	b.Metadata = &cdx.Metadata{Component: &whole}
	if o.created.Unix() != 0 {
		b.Metadata.Timestamp = o.created.Format(time.RFC3339)
	}
	var components []cdx.Component
	var dependencies []cdx.Dependency
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		c := component(cdx.ComponentTypeApplication, module, o.version, "cmd/"+name)
		c.Name = name
		components = append(components, c)
		on := slices.Sorted(maps.Keys(needs[name]))
		dependencies = append(dependencies, cdx.Dependency{Ref: c.BOMRef, Dependencies: &on})
	}
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		components = append(components, parts[ref])
	}
	b.Components, b.Dependencies = &components, &dependencies
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b)
	return out.Bytes(), err
}

// component refers to a module, or a package in it, by its package URL: https://github.com/package-url/purl-spec.
func component(kind cdx.ComponentType, path, version, in string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	if in != "" {
		purl += "#" + in
	}
	return cdx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}
