package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// programs are what a platform gets. The image holds those of Linux, at its root. CoreDNS changes less often, so its layer is the
// lower one.
func programs(p platform) []string {
	if p.os == linux {
		return []string{"coredns", "clusterset"}
	}
	return []string{"clusterset"} // a person's own machine
}

// build compiles the programs. They are static: there is no libc in the image.
func build(ctx context.Context, o options, log io.Writer) error {
	for _, p := range o.platforms {
		_, _ = fmt.Fprintf(log, "Compiling for %s: some minutes the first time, seconds after that.\n", p)
		for _, name := range programs(p) {
			cmd := exec.CommandContext(ctx, "go", "build",
				"-trimpath", "-buildvcs=false", "-ldflags", ldflags(o.version), "-o", o.binary(p, name), "./cmd/"+name)
			cmd.Dir = root
			cmd.Env = buildEnv(p)
			cmd.Stdout, cmd.Stderr = log, log
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("build %s for %s: %w", name, p, err)
			}
		}
	}
	return nil
}

// buildEnv is the environment to compile in. It overrides what a person has set for other builds.
func buildEnv(p platform) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch,
		"GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0")
}

// ldflags set each program's version, and leave out what differs between builds of the same sources.
func ldflags(version string) string {
	return "-s -w -buildid= -X github.com/clusterset/clusterset/internal/version.release=" + version
}
