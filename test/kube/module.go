package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ModuleFiles reads files in a folder of a module, named as path@version, such as the CRDs of another project that are no Go code.
func ModuleFiles(ctx context.Context, module, folder string, names ...string) (files [][]byte, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOWORK=off") // outside any module: go.mod and go.sum don't change
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download %s: %w\n%s", module, err, out)
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(out, &at); err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(at.Dir, filepath.FromSlash(folder), name)) //nolint:gosec // of the module
		if err != nil {
			return nil, err
		}
		files = append(files, content)
	}
	return files, nil
}
