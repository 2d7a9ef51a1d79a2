package importer

import (
	"errors"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/importer/desired"
)

func TestOptions(t *testing.T) {
	o, err := Options{Cluster: "beijing"}.withDefaults()
	if err != nil || o.DataPath != desired.DataPathPods || o.Concurrency != 8 || len(o.ExcludeNamespaces) != 1 {
		t.Errorf("defaults are %+v, %v", o, err)
	}
	_, err = Options{
		Cluster: "Bei.jing", DataPath: "tunnel", IncludeNamespaces: []string{"["}, ExcludeNamespaces: []string{"a/b"},
	}.withDefaults()
	for _, want := range []string{`cluster name "Bei.jing"`, `data path "tunnel"`, `pattern "["`, `pattern "a/b"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %s: %v", want, err)
		}
	}
}

func TestSomethingHasToHaveTheAddresses(t *testing.T) {
	for path, allowed := range map[desired.DataPath]bool{desired.DataPathPods: true, desired.DataPathClusterIPs: true, desired.DataPathNone: false} {
		_, err := Options{Cluster: "a", DataPath: path, SkipGlobalServices: true}.withDefaults()
		if errors.Is(err, ErrNoAddresses) == allowed {
			t.Errorf("%s without GlobalServices: %v", path, err)
		}
	}
}

func TestNamespaceFilters(t *testing.T) {
	for _, tc := range []struct {
		name             string
		include, exclude []string
		namespace        string
		want             bool
	}{
		{"everything", nil, []string{}, "kube-system", true},
		{"not kube-* by default", nil, nil, "kube-system", false},
		{"others by default", nil, nil, "shop", true},
		{"what is included", []string{"shop", "team-*"}, nil, "team-a", true},
		{"nothing else", []string{"shop", "team-*"}, nil, "other", false},
		{"exclusion counts first", []string{"team-*"}, []string{"team-b"}, "team-b", false},
		{"a default isn't added to what is given", nil, []string{"x"}, "kube-system", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := Options{Cluster: "a", IncludeNamespaces: tc.include, ExcludeNamespaces: tc.exclude}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			if got := o.imports(tc.namespace); got != tc.want {
				t.Errorf("imports(%s) = %v", tc.namespace, got)
			}
		})
	}
}
