package crds

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/clusterset/clusterset/api"
)

// Whatever a member writes is copied to the memory of every other one. So every string, list and map of it has a bound in the schema, and
// so has the whole. GlobalServices have no bounds, because FabDNS's have none; the importer writes them from records.
//
// Rule C50 of docs/spec/control-plane.md.
func TestEverythingThatAMemberWritesHasABound(t *testing.T) {
	all := load(t)
	for _, kind := range []string{"ExportedService", "ExportedEndpoints"} {
		b := bounds{}
		size := b.of(kind, schemaOf(all[kind]))
		t.Logf("an %s has at most %d bytes", kind, size)
		if len(b.without) > 0 {
			t.Errorf("without a bound: %v", b.without)
		}
		if size > api.MaxRecord {
			t.Errorf("an %s may have %d bytes; want at most %d", kind, size, api.MaxRecord)
		}
	}
	// The hub copies parts of heartbeats into MemberClusters, and every member has a copy of each.
	b := bounds{times: true}
	b.of("MemberCluster", schemaOf(all["MemberCluster"]))
	if len(b.without) > 0 {
		t.Errorf("without a bound: %v", b.without)
	}
}

// bounds finds what has no bound in a schema.
type bounds struct {
	times   bool // whether a time needs none: who writes the object is trusted
	without []string
}

var (
	entryRule = regexp.MustCompile(`^self\.all\(k, size\(k\) <= (\d+) && size\(self\[k\]\) <= (\d+)\)$`)
	sumRule   = regexp.MustCompile(`^self\.map\(k, size\(k\) \+ size\(self\[k\]\)\)\.sum\(\) <= (\d+)$`)
)

// of returns the most bytes that a value may have as JSON.
func (b *bounds) of(path string, s apiextensionsv1.JSONSchemaProps) int64 {
	const character = 4 // bytes in UTF-8
	switch {
	case s.XIntOrString, s.Type == "string":
		switch {
		case len(s.Enum) > 0:
			longest := 0
			for _, v := range s.Enum {
				longest = max(longest, len(v.Raw))
			}
			return int64(longest)
		case s.MaxLength != nil && (s.Pattern != "" || s.Format != ""): // ASCII
			return *s.MaxLength + 2
		case s.MaxLength != nil:
			return character**s.MaxLength + 2
		case s.Format == "date-time" && b.times:
			return 32
		}
	case s.Type == "integer", s.Type == "boolean":
		return 11
	case s.Type == "array":
		item := b.of(path+"[]", *s.Items.Schema)
		if s.MaxItems != nil {
			return *s.MaxItems*(item+1) + 2
		}
	case s.Type == "object" && s.AdditionalProperties != nil:
		if s.MaxProperties != nil {
			for _, v := range s.XValidations {
				if m := entryRule.FindStringSubmatch(v.Rule); m != nil {
					return *s.MaxProperties * (number(m[1]) + number(m[2]) + 6) // keys and values of labels are ASCII
				}
				if m := sumRule.FindStringSubmatch(v.Rule); m != nil {
					return *s.MaxProperties*6 + character*number(m[1])
				}
			}
		}
	case s.Type == "object" && (s.XPreserveUnknownFields == nil || !*s.XPreserveUnknownFields):
		total := int64(2)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if path == "ExportedService" || path == "ExportedEndpoints" || path == "MemberCluster" {
				if name != "spec" && name != "status" {
					continue // the API server's; for metadata, see the chart's admission policy and internal/door
				}
			}
			total += int64(len(name)) + 4 + b.of(path+"."+name, s.Properties[name])
		}
		return total
	}
	b.without = append(b.without, path)
	return 0
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
