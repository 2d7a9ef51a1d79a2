// Package versions compares the versions of what runs in a set: this program, the agents, the hub process and the DNS servers. It is
// `clusterset version`.
package versions

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/cli/view"
)

// What a Part is.
const (
	CLI   = "command line"
	Agent = "agent"
	Hub   = "hub process"
	DNS   = "DNS server"
)

// Part is a program of the set. Fields are only ever added.
type Part struct {
	What string `json:"what"`
	// Cluster is where it runs, empty if that isn't known or doesn't matter.
	Cluster string `json:"cluster,omitempty"`
	Version string `json:"version"`
	// Skew is why it doesn't go with the others.
	Skew string `json:"skew,omitempty"`
}

// programs are the parts whose versions only their pods tell.
var programs = map[string]string{view.PartHub: Hub, view.PartDNS: DNS}

// In reads what runs in a cluster: the agents of the set, as they report themselves, and pods of the chart. Accounts that may not read pods see
// the agents.
func In(ctx context.Context, c *objects.Cluster, name string) ([]Part, error) {
	members, err := c.MemberClusters(ctx)
	if err != nil {
		return nil, err
	}
	var parts []Part
	for i := range members {
		if v := members[i].Status.AgentVersion; v != "" && !members[i].Left() {
			parts = append(parts, Part{What: Agent, Cluster: members[i].Name, Version: v})
		}
	}
	pods, err := view.Pods(ctx, c)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for _, p := range pods {
		if what := programs[p.Part]; what != "" {
			parts = append(parts, Part{What: what, Cluster: name, Version: cmp.Or(p.Version, p.Digest, "latest")})
		}
	}
	return parts, nil
}

// Compare sorts the parts, each once, and says which are more than a minor version from the newest. Versions that aren't releases aren't
// compared.
func Compare(parts []Part) []Part {
	all := slices.Clone(parts)
	order := []string{CLI, Hub, Agent, DNS}
	slices.SortStableFunc(all, func(a, b Part) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.What), slices.Index(order, b.What)), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Version, b.Version))
	})
	all = slices.Compact(all)
	newest := -1
	for _, p := range all {
		if n, ok := minor(p.Version); ok && p.What != CLI {
			newest = max(newest, n)
		}
	}
	for i := range all {
		n, ok := minor(all[i].Version)
		if !ok || newest < 0 {
			continue
		}
		switch behind := newest - n; {
		case behind > 1:
			all[i].Skew = "more than one minor version behind; upgrade it"
		case behind < -1:
			all[i].Skew = "more than one minor version ahead of all others; use an older one, or upgrade them"
		}
	}
	return all
}

// minor returns a number that differs by one between minor versions. No two major versions go together.
func minor(v string) (int, bool) {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) != 3 || !strings.HasPrefix(v, "v") {
		return 0, false
	}
	major, err := strconv.Atoi(parts[0])
	number, err2 := strconv.Atoi(parts[1])
	return major*1_000_000 + number, err == nil && err2 == nil
}

// Skewed counts the parts that don't go with the others.
func Skewed(all []Part) (n int) {
	for _, p := range all {
		if p.Skew != "" {
			n++
		}
	}
	return n
}

// Render lists the parts for a person.
func Render(all []Part, colours bool) string {
	w := &screen.Writer{Colours: colours}
	var rows [][]screen.Cell
	for _, p := range all {
		rows = append(rows, append(screen.T(p.What, screen.Or(p.Cluster), p.Version), screen.Cell{Text: p.Skew, Colour: screen.Bad}))
	}
	w.Table([]string{"PART", "CLUSTER", "VERSION", ""}, rows)
	return w.String()
}
