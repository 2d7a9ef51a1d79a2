package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// licensed are the licences of code that a release may contain, by SPDX identifier. All of them allow us to distribute the
// programs under Apache-2.0, if the release contains their texts. A part under any other licence ends the release, as does one
// whose licence isn't recognized.
//
// The Mozilla Public License covers files, not the programs that they become part of. It asks that recipients learn where the
// source is: the notices name each module, unchanged, with its version.
var licensed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-2-Clause-Views", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// recognized is the least part of a licence file, in percent, that has to be the text of known licences.
const recognized = 75

// The libraries of the console's page, and the program that contains them.
const (
	libDir  = root + "/cli/console/web/lib"
	console = "clusterset"
)

// noticesFile is the file with the parts' licences and notices, in a release and in the image.
const noticesFile = "THIRD_PARTY_NOTICES.txt"

// part is third-party software in a program: a Go module, Go's standard library or an npm package.
type part struct {
	purl     string // package URL
	name     string
	version  string
	licences []string          // SPDX identifiers, sorted
	files    map[string]string // the licence and notice files, by their path in the part

	top  string          // a Go module's own folder
	dirs map[string]bool // the folders of its packages that are used
}

func (p *part) component() cdx.Component {
	c := cdx.Component{BOMRef: p.purl, Type: cdx.ComponentTypeLibrary, Name: p.name, Version: p.version, PackageURL: p.purl}
	choices := cdx.Licenses{}
	for _, id := range p.licences {
		choices = append(choices, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	c.Licenses = &choices
	return c
}

// programParts are the parts of each program over all platforms, by the program's name and the part's package URL.
type programParts map[string]map[string]*part

// all returns the parts of all programs by their package URL.
func (p programParts) all() map[string]*part {
	all := map[string]*part{}
	for _, of := range p {
		maps.Copy(all, of)
	}
	return all
}

// partsOf returns the parts of the programs for these platforms.
func partsOf(ctx context.Context, platforms []platform) (programParts, error) {
	modules, all := map[string]*part{}, programParts{}
	for _, p := range platforms {
		for _, name := range programs(p) {
			if all[name] == nil {
				all[name] = map[string]*part{}
			}
			err := eachPackage(ctx, p, name, func(module, top, dir string) {
				m := modules[module]
				if m == nil {
					path, version, _ := strings.Cut(module, "@")
					m = &part{purl: purl(path, version, ""), name: path, version: version, top: top, dirs: map[string]bool{}}
					modules[module] = m
				}
				m.dirs[dir], all[name][m.purl] = true, m
			})
			if err != nil {
				return nil, fmt.Errorf("list the modules of %s for %s: %w", name, p, err)
			}
		}
	}
	var errs []error
	for _, m := range modules {
		errs = append(errs, m.read())
	}
	scripts, err := scripts(libDir)
	for _, p := range scripts {
		all[console][p.purl] = p
	}
	return all, errors.Join(append(errs, err)...)
}

// eachPackage calls f for each package of a program that isn't ours: with its "module@version", that module's folder and its own.
func eachPackage(ctx context.Context, p platform, name string, f func(module, top, dir string)) error {
	const format = "{{if .Standard}}std@{{else}}{{with .Module}}{{if not .Main}}{{with .Replace}}{{.Path}}@{{.Version}}{{else}}{{.Path}}@{{.Version}}{{end}}{{end}}{{end}}{{end}}\t{{with .Module}}{{.Dir}}{{end}}\t{{.Dir}}\t{{.Root}}"
	out, err := goTool(ctx, p, "list", "-deps", "-f", format, "./cmd/"+name)
	if err != nil {
		return err
	}
	version, err := goTool(ctx, p, "env", "GOVERSION")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		switch module := fields[0]; {
		case len(fields) == 4 && module == "std@":
			f(module+strings.TrimPrefix(strings.TrimSpace(version), "go"), fields[3], fields[2])
		case len(fields) >= 3 && strings.Contains(module, "@"):
			f(module, fields[1], fields[2])
		}
	}
	return nil
}

// goTool runs a command of the go tool in the main module, as a build for the platform sees it.
func goTool(ctx context.Context, p platform, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, buildEnv(p)
	out, err := cmd.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		err = fmt.Errorf("%w\n%s", err, failed.Stderr)
	}
	return string(out), err
}

// read reads a module's licences: those of the module, and those of folders in it that hold used packages, because modules include code of
// others.
func (p *part) read() error {
	p.files = map[string]string{}
	read := map[string]bool{}
	for dir := range p.dirs {
		for ; len(dir) >= len(p.top) && !read[dir]; dir = filepath.Dir(dir) {
			read[dir] = true
			if p.name == "std" && dir != p.top {
				continue // packages of the standard library have Go's licence; vendored ones have it too
			}
			if err := p.readFiles(dir); err != nil {
				return err
			}
		}
	}
	return p.identify()
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying)([-._].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|copyright|patents)([-._].*)?$`)
	otherFile   = regexp.MustCompile(`(?i)\.(go|csv|json|ya?ml|sh|py)$`)
)

func (p *part) readFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || otherFile.MatchString(e.Name()) || !licenceFile.MatchString(e.Name()) && !noticeFile.MatchString(e.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		name, err := filepath.Rel(p.top, filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		p.files[filepath.ToSlash(name)] = strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n")) + "\n"
	}
	return nil
}

// identify finds the licences in the part's files. It returns an error for a part without a licence, with a text that isn't a
// known licence's, or with a licence that a release may not contain.
func (p *part) identify() error {
	ids := map[string]bool{}
	for name, text := range p.files {
		if !licenceFile.MatchString(filepath.Base(name)) {
			continue
		}
		found := licensecheck.Scan([]byte(text))
		if found.Percent < recognized {
			return fmt.Errorf("%s@%s: %s is not the text of a known licence (%.0f%% is); read it, and say in image/licences.go what it is", p.name, p.version, name, found.Percent)
		}
		for _, m := range found.Match {
			if !m.IsURL {
				ids[m.ID] = true
			}
		}
	}
	p.licences = slices.Sorted(maps.Keys(ids))
	if len(p.licences) == 0 {
		return fmt.Errorf("%s@%s has no licence", p.name, p.version)
	}
	for _, id := range p.licences {
		if !slices.Contains(licensed, id) {
			return fmt.Errorf("%s@%s is under %s, which a release may not contain; want one of %s", p.name, p.version, id, strings.Join(licensed, ", "))
		}
	}
	return nil
}

// scripts returns the npm packages whose files are in dir, as its file ORIGIN lists them, with the licences in that folder.
func scripts(dir string) (found []*part, err error) {
	origin, err := os.ReadFile(filepath.Join(dir, "ORIGIN"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(origin)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || strings.HasPrefix(line, "#") {
			continue
		}
		name, version, _ := strings.Cut(fields[1], "@")
		content, err := os.ReadFile(filepath.Join(dir, name+".LICENSE"))
		if err != nil {
			return nil, err
		}
		p := &part{purl: "pkg:npm/" + name + "@" + version, name: name, version: version}
		p.files = map[string]string{"LICENSE": strings.TrimSpace(string(content)) + "\n"}
		if err := p.identify(); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

// notices returns what licences ask to accompany the programs: each part with its licences, and their texts, each once.
func notices(programs programParts) []byte {
	parts := programs.all()
	texts := map[string][]string{} // the parts that have a text
	var out bytes.Buffer
	out.WriteString("The programs coredns and clusterset contain the following software of others. The source of a Go module is at\n" +
		"https://proxy.golang.org/<module>/@v/<version>.zip, that of an npm package at https://www.npmjs.com/package/<package>.\n\n")
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		p := parts[ref]
		fmt.Fprintf(&out, "%s %s: %s\n", p.name, p.version, strings.Join(p.licences, ", "))
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			texts[p.files[name]] = append(texts[p.files[name]], p.name+" "+p.version+", "+name)
		}
	}
	for _, text := range slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return strings.Compare(texts[a][0], texts[b][0]) }) {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(texts[text], "\n"), text)
	}
	return out.Bytes()
}

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
