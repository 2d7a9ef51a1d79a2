package clusterdns

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What is between these lines is ours.
const (
	begin = "# clusterset: begin"
	end   = "# clusterset: end"
)

// cut returns what is before and after our block, and the block. Without one, everything is before it. If no line break follows the
// block, the text had none at its end, and the one before the block is ours.
func cut(text string) (before, block, after string, err error) {
	from := strings.Index(text, begin)
	if from < 0 {
		return text, "", "", nil
	}
	to := strings.Index(text[from:], end)
	if to < 0 {
		return "", "", "", fmt.Errorf("line %d begins a block that no line %q ends", 1+strings.Count(text[:from], "\n"), end)
	}
	to += from + len(end)
	if strings.HasPrefix(text[to:], "\n") {
		to++
	} else if strings.HasSuffix(text[:from], "\n") {
		from--
	}
	return text[:from], text[from:to], text[to:], nil
}

// marked puts a block between its comments, after before.
func marked(before, block, after string) string {
	block = begin + ", by clusterset dns enable\n" + block + "\n" + end
	if before != "" && !strings.HasSuffix(before, "\n") {
		return before + "\n" + block + after
	}
	return before + block + "\n" + after
}

func editCorefile(p *Place, zones []string, address string, add bool) (string, error) {
	before, _, after, err := cut(p.Text)
	if err != nil || !add {
		return before + after, err
	}
	return marked(before, p.stanza(zones, address), after), nil
}

func (p *Place) stanza(zones []string, address string) string {
	head := strings.Join(zones, ":53 ") + ":53 {\n    errors\n    cache 5\n"
	if p.Key != cacheKey {
		return head + "    forward . " + address + "\n}"
	}
	blocks, _ := p.blocks(true)
	// Each stanza has the addresses at which the cache answers.
	if at := slices.IndexFunc(blocks[0].plugins, func(p plugin) bool { return p.name == "bind" }); at >= 0 {
		head += "    bind " + strings.Join(blocks[0].plugins[at].args, " ") + "\n"
	}
	return head + "    forward . " + address + " {\n        force_tcp\n    }\n}"
}

// editValues changes the values of RKE2's CoreDNS chart. Their extraConfig is a map from the first words of a stanza to the rest, which the
// chart copies to the Corefile. The chart's own servers, a list, stay as they are.
func editValues(p *Place, zones []string, address string, add bool) (string, error) {
	before, _, after, err := cut(p.Text)
	var values map[string]any
	if err := errors.Join(err, yaml.Unmarshal([]byte(before+after), &values)); err != nil || !add {
		return before + after, err
	}
	key, body, _ := strings.Cut(p.stanza(zones, address), " {")
	if values["extraConfig"] != nil {
		return "", fmt.Errorf("%s has extraConfig already; add %q to it, with these parameters:\n{%s", p.Edited, key, body)
	}
	body = strings.ReplaceAll(body, "\n", "\n          ") // the chart indents only the first line, by four
	return marked(before, fmt.Sprintf("extraConfig:\n  %q:\n    parameters: |-\n      {%s", key, body), after), nil
}

// editServers changes spec.servers of OpenShift's DNS operator, in YAML.
func editServers(p *Place, zones []string, address string, add bool) (string, error) {
	var all []map[string]any
	if err := yaml.Unmarshal([]byte(p.Text), &all); err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(s map[string]any) bool { return s["name"] == "clusterset" })
	switch {
	case at >= 0 && !add:
		all = slices.Delete(all, at, at+1)
	case at < 0 && add:
		at, all = len(all), append(all, map[string]any{"name": "clusterset"})
		fallthrough
	case add: // the API server has added defaults
		all[at]["zones"] = zones
		if err := unstructured.SetNestedStringSlice(all[at], []string{address}, "forwardPlugin", "upstreams"); err != nil {
			return "", err
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	content, err := yaml.Marshal(all)
	return string(content), err
}

// editStubDomains changes kube-dns' servers by zone, in JSON. Nothing marks ours but the address.
func editStubDomains(p *Place, zones []string, address string, add bool) (string, error) {
	all, err := stubDomains(p.Text)
	for _, zone := range zones {
		if add {
			all[zone] = []string{address}
		} else if slices.Equal(all[zone], []string{address}) {
			delete(all, zone)
		}
	}
	return jsonOf(all), err
}

func stubDomains(text string) (all map[string][]string, err error) {
	if all = map[string][]string{}; text != "" {
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}

func jsonOf(all map[string][]string) string {
	if len(all) == 0 {
		return ""
	}
	content, _ := json.Marshal(all) // strings
	return string(content)
}

// seeStubDomains returns stub domains as we write them, and what they would be to CoreDNS.
func seeStubDomains(text string) (same, corefile string, err error) {
	all, err := stubDomains(text)
	for _, zone := range slices.Sorted(maps.Keys(all)) {
		corefile += zone + " {\n forward . " + strings.Join(all[zone], " ") + "\n}\n"
	}
	return jsonOf(all), corefile, err
}

// Difference shows how a text changes, as diff -U0 does.
func Difference(name, from, to string) string {
	text, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{FromFile: name, ToFile: name, A: lines(from), B: lines(to)}) // it writes to memory
	return text
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
}
