package rehearse

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/screen"
)

// change is a write that would be done.
type change struct {
	verb, kind, name string
	fields           []string // of an update
	unchecked        string   // why the API server couldn't check it
}

const (
	shown      = 10 // how many objects of a kind are listed if all have the same fate
	valueShown = 60 // how long a value may be
)

// Render says what would change in a cluster. where is it in words, such as "On the hub at https://hub:6443".
func (c *Client) Render(where string) string {
	if len(c.changes) == 0 {
		return where + " nothing would change.\n"
	}
	var w screen.Writer
	for i := 0; i < len(c.changes); {
		same := c.changes[i:]
		if n := slices.IndexFunc(same, func(o change) bool { return o.verb != same[0].verb || o.kind != same[0].kind || len(o.fields) > 0 }); n > 0 {
			same = same[:n]
		} else if n == 0 {
			same = same[:1]
		}
		if len(same) <= shown {
			same = same[:1]
		}
		w.Rows([][]screen.Cell{screen.T("  "+same[0].verb, textOf(same))})
		i += len(same)
	}
	return where + " this would:\n" + w.String()
}

func textOf(same []change) string {
	names := make([]string, len(same))
	for i, c := range same {
		names[i] = c.name
	}
	text := fmt.Sprintf("%s %s", same[0].kind, names[0])
	if len(same) > 1 {
		text = fmt.Sprintf("%s: %d objects: %s", same[0].kind, len(names), screen.Several(names, 3, ", "))
	}
	if fields := same[0].fields; len(fields) > 0 {
		text += ": " + strings.Join(fields, ", ")
	}
	if why := same[0].unchecked; why != "" {
		text += " (not checked: " + why + ")"
	}
	return text
}

// differences returns the fields that differ, without those that the API server sets.
func differences(before, after map[string]any, secret bool) (fields []string) {
	was, is := map[string]any{}, map[string]any{}
	flatten(was, "", before)
	flatten(is, "", after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		old, had := was[path]
		value, has := is[path]
		switch {
		case reflect.DeepEqual(old, value):
		case secret || !short(old) || !short(value):
			fields = append(fields, path+" changes")
		case !has:
			fields = append(fields, fmt.Sprintf("%s is %s and would be removed", path, text(old)))
		case !had:
			fields = append(fields, fmt.Sprintf("%s would be %s", path, text(value)))
		default:
			fields = append(fields, fmt.Sprintf("%s is %s and would be %s", path, text(old), text(value)))
		}
	}
	return fields
}

// flatten adds all values below a path. A list is one value.
func flatten(to map[string]any, path string, v any) {
	switch path {
	case "apiVersion", "kind", "status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "metadata.uid", "metadata.creationTimestamp":
		return
	}
	if m, ok := v.(map[string]any); ok {
		for k, v := range m {
			flatten(to, strings.TrimPrefix(path+"."+k, "."), v)
		}
	} else if v != nil {
		to[path] = v
	}
}

func short(v any) bool { return len(text(v)) <= valueShown }

func text(v any) string {
	if s, ok := v.(string); ok {
		return screen.Printable(s)
	}
	content, _ := json.Marshal(v)
	return screen.Printable(string(content))
}
