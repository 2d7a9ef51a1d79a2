package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/clusterset/clusterset/test/process"
)

const module = "github.com/clusterset/clusterset"

// Build builds both programs into dir, with additional linker flags. The folder repository must be in the repository. The
// flags "-s -w" omit the debug information and halve the time. Without a build cache, it takes two to five minutes on two
// cores.
//
// If CLUSTERSET_BINARIES names a folder with both programs, as in make test, Build only links to them.
func Build(ctx context.Context, repository, dir, ldflags string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	bin := BinariesIn(dir)
	if built := os.Getenv("CLUSTERSET_BINARIES"); built != "" {
		return bin, errors.Join(os.MkdirAll(dir, 0o755), link(built, bin.Clusterset), link(built, bin.CoreDNS))
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags="+ldflags, "-o", dir+string(filepath.Separator), module+"/cmd/clusterset", module+"/cmd/coredns")
	cmd.Dir = repository
	out, err := process.CombinedOutput(cmd)
	switch {
	case ctx.Err() != nil:
		return Binaries{}, fmt.Errorf("build clusterset and coredns: %w", context.Cause(ctx))
	case err != nil:
		return Binaries{}, fmt.Errorf("go build clusterset and coredns: %w\n%s", err, out)
	}
	return bin, nil
}

func link(built, path string) error {
	return os.Symlink(filepath.Join(built, filepath.Base(path)), path)
}
