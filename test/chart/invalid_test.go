package chart

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Invalid values are rejected before anything is installed, with a message that says what to do.
func TestInvalidValues(t *testing.T) {
	var all []struct{ Name, Values, Namespace, Kube, Want string }
	if err := yaml.UnmarshalStrict([]byte(read(t, "invalid.yaml")), &all); err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	for _, c := range all {
		o := Options{"clusterset", "clusterset-system", c.Values, newest}
		if c.Namespace != "" {
			o.Namespace = c.Namespace
		}
		if c.Kube != "" {
			o.KubeVersion = c.Kube
		}
		if _, err := Render(chartDir, o); err == nil || !strings.Contains(err.Error(), c.Want) {
			t.Errorf("%s: %s\ngot  %v\nwant %s", c.Name, c.Values, err, c.Want)
		}
	}
}
