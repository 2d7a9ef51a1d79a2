package docs

import (
	"slices"
	"strings"
	"testing"
)

// An Application or Kustomization that is moved, renamed or deleted deletes no MemberCluster of the page, or its clusters would leave.
func TestGitOpsKeepsMembers(t *testing.T) {
	members := 0
	for _, b := range blocks(t, "docs/gitops.md") {
		if b.kind != "yaml" || b.args != "" {
			continue
		}
		objects, err := decodeAll(b.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetKind() != "MemberCluster" {
				continue
			}
			members++
			options := strings.Split(o.GetAnnotations()["argocd.argoproj.io/sync-options"], ",")
			// Argo CD looks at Prune when the file is gone, and at Delete when the Application is.
			if !slices.Contains(options, "Prune=false") || !slices.Contains(options, "Delete=false") {
				t.Errorf("Argo CD deletes %s: its options are %q", o.GetName(), options)
			}
			if got := o.GetAnnotations()["kustomize.toolkit.fluxcd.io/prune"]; got != "disabled" {
				t.Errorf("Flux deletes %s: prune is %q", o.GetName(), got)
			}
		}
	}
	if members == 0 {
		t.Error("the page has no MemberCluster")
	}
}
