package console

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/cli/preview"
)

// Flags are those with which other commands read what the console reads.
type Flags struct {
	// Hub leads to the hub; it is empty for files. Preview is what clusterset preview needs, and Members the kubeconfig of the members.
	Hub, Preview, Members []string
}

// preview returns the command that previews the changes, to be pasted into a shell.
func (f Flags) preview(changes []preview.Change) string {
	words := []string{"clusterset", "preview"}
	if len(changes) == 1 {
		if change := verb(&changes[0]); change != nil {
			words = append(words, change...)
			if e := changes[0].Export; e != nil && e.Context != "" {
				words = append(append(words, f.Members...), "--context", e.Context)
			}
			return line(append(words, f.Preview...)...)
		}
	}
	file, err := yaml.Marshal(changes)
	if err != nil {
		return ""
	}
	if slices.ContainsFunc(changes, func(c preview.Change) bool { return c.Export != nil }) {
		words = append(words, f.Members...)
	}
	return line(append(append(words, f.Preview...), "--file", "-")...) + " <<'EOF'\n" + string(file) + "EOF"
}

// verb returns the arguments for a change that has a command of its own, or nil.
func verb(c *preview.Change) []string {
	switch {
	case len(c.Down) > 0:
		return append([]string{"down"}, c.Down...)
	case len(c.Drain) > 0:
		return append([]string{"drain"}, c.Drain...)
	case len(c.Undrain) > 0:
		return append([]string{"undrain"}, c.Undrain...)
	case len(c.Leave) > 0:
		return append([]string{"leave"}, c.Leave...)
	case c.Unreachable != nil:
		return append(append([]string{"unreachable"}, c.Unreachable.Clusters...), each("--from", c.Unreachable.From)...)
	case c.Export != nil:
		return []string{"export", c.Export.Service, "--from", c.Export.From}
	case c.Unexport != nil:
		return []string{"unexport", c.Unexport.Service, "--from", c.Unexport.From}
	case c.Place != nil:
		return append(append([]string{"place", c.Place.Cluster}, each("--zone", c.Place.Zones)...), each("--region", texts(c.Place.Region))...)
	case c.Communities != nil:
		return append([]string{"communities", c.Communities.Cluster}, each("--community", c.Communities.To)...)
	case c.Network != nil && len(c.Network.CIDRs) > 0 && c.Network.To == "" && len(c.Network.ExternalCIDRs) == 0:
		return []string{"cidrs", c.Network.Cluster, strings.Join(c.Network.CIDRs, ",")}
	case c.Network != nil && len(c.Network.CIDRs) == 0:
		return append([]string{"network", c.Network.Cluster, "--to", c.Network.To}, each("--external-cidrs", c.Network.ExternalCIDRs)...)
	case c.ExportTo != nil && c.ExportTo.From == "":
		return append([]string{"export-to", c.ExportTo.Service}, each("--to", c.ExportTo.To)...)
	case c.Policy != nil && c.Policy.From == "":
		p := c.Policy
		words := append([]string{"policy", p.Service}, each("--prefer", strings.Fields(p.Prefer))...)
		words = append(words, each("--boundary", texts(p.Boundary))...)
		if p.MinReady != 0 {
			words = append(words, "--min-ready", strconv.Itoa(int(p.MinReady)))
		}
		return words
	}
	return nil
}

// each repeats a flag for each value.
func each(flag string, values []string) (words []string) {
	for _, v := range values {
		words = append(words, flag, v)
	}
	return words
}

// texts is a list of a text, unless it is empty.
func texts(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// plain words need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// line is a line for a POSIX shell.
func line(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; !plain.MatchString(w) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
