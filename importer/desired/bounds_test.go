//go:build !race

// This target counts allocations. The race detector would add its own.

package desired_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/test/records"
)

// FuzzAcceptedRecords imports records that the hub's CustomResourceDefinitions accept, whatever else is in them: it makes them from the
// schemas. What an importer allocates for them, and what it writes, has a bound. Rules C50 and C52 of docs/spec/control-plane.md.
func FuzzAcceptedRecords(f *testing.F) {
	schemas := schemasOfRecords(f)
	for i, seed := range []string{"", "\x00", "\xff", "\xff\xfe\xfd", "\x80\x01\xff\x7f", "clusterset", strings.Repeat("\xff\x00\x03", 50)} {
		f.Add([]byte(seed), uint8(i)) //nolint:gosec // a few
		f.Add([]byte(seed), uint8(255-i))
	}
	paths := []desired.DataPath{desired.DataPathPods, desired.DataPathClusterIPs, desired.DataPathNone}
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		honestService, honestEndpoints := honest(t)
		in := records.Input(t, paths[how%3])
		in.Services, in.Endpoints = append(in.Services, honestService), append(in.Endpoints, honestEndpoints)
		if how&4 != 0 {
			m := &clustersetv1alpha1.MemberCluster{}
			m.Name = "b"
			for i := range clustersetv1alpha1.MaxCIDRs {
				m.Spec.CIDRs = append(m.Spec.CIDRs, fmt.Sprintf("192.168.%d.0/24", i))
			}
			in.Members["b"] = m
		}
		const n = 3
		g := &generator{data: data}
		s := &clustersetv1alpha1.ExportedService{}
		g.into(t, schemas["ExportedService"], &s.Spec)
		s.Namespace, s.Name, s.Spec.ServiceNamespace, s.Spec.ServiceName = "clusterset-member-b", "web.shop", "shop", "web"
		in.Services = append(in.Services, s)
		for i := range n {
			e := &clustersetv1alpha1.ExportedEndpoints{}
			g.into(t, schemas["ExportedEndpoints"], &e.Spec)
			e.Namespace, e.Name, e.Spec.ServiceNamespace, e.Spec.ServiceName = "clusterset-member-b", fmt.Sprint("web.shop.x-", i), "shop", "web"
			in.Endpoints = append(in.Endpoints, e)
		}

		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := in.Compute()
		runtime.ReadMemStats(&after)
		const most = 4 // times the largest record, for each record
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most*(n+1)*api.MaxRecord {
			t.Errorf("allocated %d kB for %d records", allocated/1000, n+1)
		}
		if out.ServiceImport == nil {
			t.Fatal("the other cluster's part is gone")
		}
		errs := 0
		for _, d := range out.Drops {
			errs += len(d.Values.Errors)
		}
		if len(out.Drops) > n+2 || errs > len(out.Drops) {
			t.Errorf("keeps %d errors in %d drops for %d records", errs, len(out.Drops), n+1)
		}
		written := len(asJSON(t, out.ServiceImport)) + len(asJSON(t, out.Derived)) + len(asJSON(t, out.Global))
		for _, slice := range out.Slices {
			written += len(asJSON(t, slice))
			checkSlice(t, slice)
			if _, errs, _ := index.Convert(slice); len(errs) > 0 {
				t.Errorf("the DNS servers find in a slice: %v", errs.ToAggregate())
			}
		}
		if written > 4*(n+1)*api.MaxRecord || len(out.Slices) > 64*(n+2) {
			t.Errorf("writes %d kB in %d slices for %d records", written/1000, len(out.Slices), n+1)
		}
		checkImport(t, out)
	})
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// schemasOfRecords returns the schema of the spec of each kind of record.
func schemasOfRecords(f *testing.F) map[string]apiextensionsv1.JSONSchemaProps {
	f.Helper()
	schemas := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, content := range crds.All() {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			f.Fatal(err)
		}
		schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	}
	return schemas
}

// generator makes values that a schema accepts. The data decide which; it is read again and again.
type generator struct {
	data []byte
	at   int
}

// next returns a number below n.
func (g *generator) next(n int) int {
	if len(g.data) == 0 || n <= 1 {
		return 0
	}
	a, b := g.data[g.at%len(g.data)], g.data[(g.at+1)%len(g.data)]
	g.at++
	if a == 0xff {
		return n - 1
	}
	return (int(a)<<8 | int(b) + g.at/len(g.data)) % n
}

func (g *generator) into(t *testing.T, schema apiextensionsv1.JSONSchemaProps, to any) {
	t.Helper()
	if err := json.Unmarshal(asJSON(t, g.value(schema)), to); err != nil {
		t.Fatal(err)
	}
}

func (g *generator) value(s apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(s.Enum) > 0:
		return json.RawMessage(s.Enum[g.next(len(s.Enum))].Raw)
	case s.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	case s.XIntOrString && g.next(2) == 0, s.Type == "integer":
		low, high := 0, 1<<31-1
		if s.Minimum != nil {
			low = int(*s.Minimum)
		}
		if s.Maximum != nil {
			high = int(*s.Maximum)
		}
		return low + g.next(high-low+1)
	case s.Type == "boolean":
		return g.next(2) == 0
	case s.Type == "array":
		list := make([]any, g.next(int(*s.MaxItems)+1))
		if s.MinItems != nil {
			list = slices.Grow(list, int(*s.MinItems))[:max(len(list), int(*s.MinItems))]
		}
		for i := range list {
			list[i] = g.value(*s.Items.Schema)
		}
		return list
	case s.AdditionalProperties != nil:
		values, room := map[string]any{}, 16384
		for i := range g.next(int(*s.MaxProperties) + 1) {
			key := fmt.Sprintf("%s%d", strings.Repeat("k", g.next(300)), i)
			value := strings.Repeat("v", g.next(64))
			if room -= len(key) + len(value); room < 0 {
				break
			}
			values[key] = value
		}
		return values
	case s.Type == "object":
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || g.next(4) > 0 {
				object[name] = g.value(s.Properties[name])
			}
		}
		return object
	default:
		return g.text(s)
	}
}

// text returns a string of any length that is permitted.
func (g *generator) text(s apiextensionsv1.JSONSchemaProps) string {
	n := g.next(int(*s.MaxLength) + 1)
	candidates := []string{
		fmt.Sprintf("10.%d.%d.%d", g.next(256), g.next(256), g.next(256)), fmt.Sprintf("fd00::%x:%x", g.next(65536), g.next(65536)), "127.0.0.1", "::ffff:10.1.2.3",
		strings.Repeat("a", n), strings.Repeat("a", max(0, n-4)) + fmt.Sprint(1000+g.next(9000)), strings.Repeat("华", n), "\x00\x1b[2J", "http", "example.com/" + strings.Repeat("p", n),
		"none", "cluster zone", "", "a",
	}
	from := g.next(len(candidates))
	for i := range candidates {
		c := candidates[(from+i)%len(candidates)]
		if len([]rune(c)) > int(*s.MaxLength) || s.MinLength != nil && len(c) < int(*s.MinLength) {
			continue
		}
		if s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(c) {
			return c
		}
	}
	return ""
}
