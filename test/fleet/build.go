package fleet

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

const module = "github.com/clusterset/clusterset"

// Build builds our two programs into a folder, from the repository in which another lies, as a user would but with linker
// flags of one's own: "-s -w", say, which leaves out the debug information and halves the time. With nothing cached it takes
// two to five minutes on two cores.
func Build(ctx context.Context, repository, dir, ldflags string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags="+ldflags, "-o", dir+string(filepath.Separator), module+"/cmd/clusterset", module+"/cmd/coredns")
	cmd.Dir = repository
	cmd.SysProcAttr = WithoutOrphans()
	runtime.LockOSThread() // see startOnce
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // go build's compilers too
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return Binaries{}, fmt.Errorf("build clusterset and coredns: %w", context.Cause(ctx))
	case err != nil:
		return Binaries{}, fmt.Errorf("go build clusterset and coredns: %w\n%s", err, out)
	}
	return Binaries{Clusterset: filepath.Join(dir, "clusterset"), CoreDNS: filepath.Join(dir, "coredns")}, nil
}
