package chart

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/clusterset/clusterset/test/page"
)

// likeExample names the example that another one resembles. Its golden file has the differences only.
var likeExample = map[string]string{
	"defaults-1.33": "defaults", "defaults-1.30": "defaults", "member": "defaults", "fabedge": "defaults", "hub-and-member": "defaults", "every-node": "defaults",
	"dns-only": "cluster-dns", "cluster-dns-takeover": "cluster-dns", "corefile": "cluster-dns",
	"hub-members": "hub", "production": "hub-and-member",
}

// Each documented set of values renders to the files in testdata. UPDATE=1 rewrites them; review the diff.
func TestGolden(t *testing.T) {
	fresh := map[string]bool{}
	golden := func(name, got string) {
		path := filepath.Join("testdata", name)
		page.Fresh(t, path, got)
		fresh[path] = true
	}
	all, manifests := examples(t), map[string]string{}
	for _, e := range all {
		r := render(t, e.Options)
		manifests[e.name] = withoutFiles(r.Manifests)
		golden(e.name+".notes", r.Notes)
	}
	for _, e := range all {
		if like, is := likeExample[e.name]; is {
			golden(e.name+".from-"+like+".diff", differences(manifests[like], manifests[e.name]))
		} else {
			golden(e.name+".yaml", manifests[e.name])
		}
	}
	there, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if !fresh[path] {
			t.Errorf("%s belongs to no example", path)
		}
	}
}

var (
	schemaRE    = regexp.MustCompile(`(?ms)^(kind: CustomResourceDefinition\n.*?^  name: \S+\n).*`)
	dashboardRE = regexp.MustCompile(`(?ms)^(  \S+\.json: \|\n).*`)
)

// withoutFiles removes everything but the metadata from each CustomResourceDefinition, and everything but the name from each
// dashboard: the rest would make each golden file ten times as long.
func withoutFiles(manifests string) string {
	documents := strings.SplitAfter(manifests, "\n---\n")
	for i, document := range documents {
		end := ""
		if strings.HasSuffix(document, "---\n") {
			end = "---\n"
		}
		document = schemaRE.ReplaceAllString(strings.TrimSuffix(document, "---\n"), "${1}# …\n")
		documents[i] = dashboardRE.ReplaceAllString(document, "${1}    …\n") + end
	}
	return strings.Join(documents, "")
}

// differences returns what differs between two sets of manifests, with a line of context. Where a difference begins is said by the
// template and the kind before it: the numbers of lines would change with every line added above.
func differences(from, to string) string {
	a, b := difflib.SplitLines(from), difflib.SplitLines(to)
	var out strings.Builder
	write := func(mark string, lines []string) {
		for _, line := range lines {
			out.WriteString(mark + line)
		}
	}
	for _, group := range difflib.NewMatcherWithJunk(a, b, false, nil).GetGroupedOpCodes(1) {
		fmt.Fprintf(&out, "@@ %s @@\n", objectAt(a, group[0].I1))
		for _, op := range group {
			if op.Tag == 'e' {
				write(" ", a[op.I1:op.I2])
				continue
			}
			write("-", a[op.I1:op.I2])
			write("+", b[op.J1:op.J2])
		}
	}
	return out.String()
}

// objectAt returns the template and the kind of the object that a line belongs to.
func objectAt(lines []string, at int) string {
	template, kind := "", ""
	for _, line := range lines[:at+1] {
		if name, ok := strings.CutPrefix(line, "# templates/"); ok {
			template, kind = strings.TrimSpace(name), ""
		} else if name, ok := strings.CutPrefix(line, "kind: "); ok {
			kind = strings.TrimSpace(name)
		}
	}
	return strings.TrimSpace(template + " " + kind)
}
