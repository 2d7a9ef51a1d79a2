package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoHistory means that an earlier version isn't available to build.
var ErrNoHistory = errors.New("no earlier version")

// BuildPrevious builds both programs of an earlier commit, or of the last release if commit is empty, and returns their folder. The
// folder's subfolder crds has the CRDs of that commit. Each commit is built once on this machine, from the repository's history.
func BuildPrevious(ctx context.Context, repository, commit string) (dir string, err error) {
	if commit == "" {
		tag, err := exec.CommandContext(ctx, "git", "-C", repository, "describe", "--tags", "--abbrev=0", "--match=v*").Output() //nolint:gosec // of a test
		if err != nil {
			return "", fmt.Errorf("%w: the history has no tag of a release: %w", ErrNoHistory, err)
		}
		commit = strings.TrimSpace(string(tag))
	}
	full, err := exec.CommandContext(ctx, "git", "-C", repository, "rev-parse", "--verify", commit+"^{commit}").Output() //nolint:gosec // of a test
	if err != nil {
		return "", fmt.Errorf("%w: the history lacks %s: %w", ErrNoHistory, commit, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "clusterset", "previous", strings.TrimSpace(string(full)))
	if _, err := os.Stat(filepath.Join(dir, "coredns")); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	source, err := os.MkdirTemp("", "previous-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(source) }()
	to := dir + ".new" + string(filepath.Separator)
	for _, args := range [][]string{
		{"git", "-C", repository, "archive", "--output=" + filepath.Join(source, "tree.tar"), commit},
		{"tar", "-xf", filepath.Join(source, "tree.tar"), "-C", source},
		{"go", "-C", source, "build", "-ldflags=-s -w", "-o", to, "./cmd/clusterset", "./cmd/coredns"},
		{"cp", "-r", filepath.Join(source, "api", "crds"), to},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // of a test
			return "", fmt.Errorf("build %s: %s: %w\n%s", commit, strings.Join(args, " "), err, out)
		}
	}
	if err := os.Rename(dir+".new", dir); err != nil {
		return "", fmt.Errorf("build %s: %w", commit, err)
	}
	return dir, nil
}
