package docs

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/page"
)

// The server of `make run` answers as the README shows, before and after the drain, and the README has the three dig commands it prints.
func TestReadmeDigs(t *testing.T) {
	manifests := t.TempDir()
	if err := os.CopyFS(manifests, os.DirFS(filepath.Join(root, "examples", "manifests"))); err != nil {
		t.Fatal(err)
	}
	addr := start(t, strings.Replace(read(t, filepath.Join(root, "examples", "Corefile")), "examples/manifests", manifests, 1), "", "").DNS
	console := slices.DeleteFunc(blocks(t, "README.md"), func(b block) bool { return b.kind != "console" })
	makefile := read(t, filepath.Join(root, "Makefile"))
	digs := regexp.MustCompile(`(?m)^  dig @127\.0\.0\.1 -p 1053 (\S+)(?: (\S+))?$`).FindAllStringSubmatch(console[0].text, -1)
	if len(digs) != 3 {
		t.Fatalf("README has %d dig lines, want make run's", len(digs))
	}
	for _, dig := range digs {
		if printed := strings.Replace(strings.TrimSpace(dig[0]), "1053", "$(PORT)", 1); !strings.Contains(makefile, printed) {
			t.Errorf("make run does not print %q", printed)
		}
		expectAnswer(t, addr, dig[1]+" "+dig[2], "5 IN "+cmp.Or(dig[2], "A")+" ")
	}
	expectShown(t, addr, console[1])
	clusters := filepath.Join(manifests, "clusters.yaml")
	drained := strings.Replace(read(t, clusters), "name: xicheng\nspec:\n", "name: xicheng\nspec:\n  drain: true\n", 1)
	if err := os.WriteFile(clusters, []byte(drained), 0o600); err != nil {
		t.Fatal(err)
	}
	expectShown(t, addr, console[2])
}

// expectShown waits until the answer is the block's. The loadbalance plugin shuffles answers.
func expectShown(t *testing.T, addr string, b block) {
	t.Helper()
	shown := lines(strings.ReplaceAll(b.text, "\t", " "))
	expectAnswer(t, addr, strings.Fields(shown[0])[5], append(shown[1:], fmt.Sprintf("ANSWER: %d,", len(shown)-1))...)
}

// Each picture is what its source draws, and small. UPDATE=1 draws it again.
func TestPictureOnPageIsFresh(t *testing.T) {
	for _, p := range []struct{ picture, source, drawer string }{
		{"docs/pictures/flow.svg", "docs/pictures/flow.txt", "-C tools run ./goat"},
		{"docs/pictures/demo.svg", "docs/demo.md", "run ./hack/demo/recording"},
	} {
		cmd := command(root, "go", strings.Fields(p.drawer)...)
		cmd.Stdin = strings.NewReader(read(t, filepath.Join(root, p.source)))
		svg, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(svg, new(struct{})); err != nil || len(svg) > 200_000 {
			t.Errorf("%s has %d bytes, want less than 200,000: %v", p.picture, len(svg), err)
		}
		page.Fresh(t, filepath.Join(root, p.picture), string(svg))
	}
}
