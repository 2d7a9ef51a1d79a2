package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binaries are what the image holds, at its root. CoreDNS changes less often, so its layer is the lower one.
var binaries = []string{"coredns", "clusterset"}

// build compiles the binaries for an architecture into dir. They are static: there is no libc in the image.
func build(ctx context.Context, dir, arch, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range binaries {
		cmd := exec.CommandContext(ctx, "go", "build",
			"-trimpath", "-buildvcs=false", "-ldflags", ldflags(version), "-o", filepath.Join(dir, name), "./cmd/"+name)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("build %s for %s: %w", name, arch, err)
		}
	}
	return nil
}

// ldflags have each binary tell its version, and leave out what differs between builds of the same sources.
func ldflags(version string) string {
	return "-s -w -buildid= -X main.release=" + version + " -X github.com/coredns/coredns/coremain.GitCommit=" + version
}
