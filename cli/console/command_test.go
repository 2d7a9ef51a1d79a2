package console

import (
	"testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
)

// Every change has a command that can be pasted into a shell, with the flags of the console; several are one file.
func TestPreviewCommands(t *testing.T) {
	f := Flags{Preview: []string{"--hub-context", "my hub"}, Members: []string{"--kubeconfig", "members"}}
	policy := preview.Policy{Service: "shop/web", ServicePolicy: clustersetv1alpha1.ServicePolicy{Prefer: "zone region", Boundary: "region", MinReady: 2}}
	from := policy
	from.From = "beijing"
	for want, changes := range map[string][]preview.Change{
		"clusterset preview down beijing shanghai --hub-context 'my hub'":             {{Down: []string{"beijing", "shanghai"}}},
		"clusterset preview drain beijing --hub-context 'my hub'":                     {{Drain: []string{"beijing"}}},
		"clusterset preview undrain beijing --hub-context 'my hub'":                   {{Undrain: []string{"beijing"}}},
		"clusterset preview leave beijing --hub-context 'my hub'":                     {{Leave: []string{"beijing"}}},
		"clusterset preview unreachable a --from b --from c --hub-context 'my hub'":   {{Unreachable: &preview.Unreachable{Clusters: []string{"a"}, From: []string{"b", "c"}}}},
		"clusterset preview unexport shop/web --from a --hub-context 'my hub'":        {{Unexport: &preview.Export{Service: "shop/web", From: "a"}}},
		"clusterset preview place a --zone z --region '$(id)' --hub-context 'my hub'": {{Place: &preview.Move{Cluster: "a", Zones: []string{"z"}, Region: "$(id)"}}},
		"clusterset preview communities a --community 'it'\\''s' --hub-context 'my hub'": {
			{Communities: &preview.Communities{Cluster: "a", To: []string{"it's"}}},
		},
		"clusterset preview cidrs a 10.1.0.0/16,10.2.0.0/16 --hub-context 'my hub'":                                               {{Network: &preview.Network{Cluster: "a", CIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}}}},
		"clusterset preview export-to shop/web --to - --hub-context 'my hub'":                                                     {{ExportTo: &preview.ExportTo{Service: "shop/web", To: []string{"-"}}}},
		"clusterset preview policy shop/web --prefer zone --prefer region --boundary region --min-ready 2 --hub-context 'my hub'": {{Policy: &policy}},
		"clusterset preview export shop/web --from a --kubeconfig members --context ca --hub-context 'my hub'": {
			{Export: &preview.Export{Service: "shop/web", From: "a", Context: "ca"}},
		},
		"clusterset preview --hub-context 'my hub' --file - <<'EOF'\n- drain:\n  - a\n- down:\n  - b\nEOF": {{Drain: []string{"a"}}, {Down: []string{"b"}}},
		"clusterset preview --hub-context 'my hub' --file - <<'EOF'\n- policy:\n    boundary: region\n    from: beijing\n    minReady: 2\n    prefer: zone region\n    service: shop/web\nEOF": {
			{Policy: &from},
		},
	} {
		if got := f.preview(changes); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
