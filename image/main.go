package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// root is the top of the repository, as seen from this folder.
const root = ".."

// options are the command line.
type options struct {
	out, name, version, binaries string
	architectures                []string
	created                      time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	if o.version == "" {
		o.version = describe(ctx)
	}
	dir := o.binaries
	if dir == "" {
		if dir, err = os.MkdirTemp("", "clusterset-image-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	images := map[string]v1.Image{}
	for _, arch := range o.architectures {
		if o.binaries == "" {
			_, _ = fmt.Fprintf(log, "Compiling for linux/%s: some minutes the first time, seconds after that.\n", arch)
			if err := build(ctx, filepath.Join(dir, arch), arch, o.version); err != nil {
				return err
			}
		}
		if images[arch], err = newImage(filepath.Join(dir, arch), arch, o); err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
	}
	if err := writeArchive(o.out, images, o); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(log, "%s: %s for %s\n", o.out, o.reference(), strings.Join(o.architectures, ", "))
	return nil
}

func parse(args []string, log io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.out, "o", filepath.Join(root, "dist", "clusterset.tar"), "`file` to write")
	flags.StringVar(&o.name, "name", "docker.io/clusterset/clusterset", "`name` of the image with its registry, without which the kubelet does not find it in containerd")
	flags.StringVar(&o.version, "version", "", "`version`, which is also the image's tag (default: git describe)")
	flags.StringVar(&o.binaries, "binaries", "", "`folder` with binaries that are built already, in a folder for each architecture (default: build them)")
	architectures := flags.String("arch", "amd64,arm64", "`architectures`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.architectures = strings.Split(*architectures, ",")
	o.created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	return o, err
}

// sourceDate is the one time in the image: https://reproducible-builds.org/specs/source-date-epoch/, else the epoch. A time of
// its own for each build would make each a different image.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q; want seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// describe names the sources as git does; a tag can't hold git's or Go's "+".
func describe(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "dev"
	}
	return strings.ReplaceAll(strings.TrimSpace(string(out)), "+", "-")
}

// reference is the image's full name.
func (o options) reference() string { return o.name + ":" + o.version }

// local is the architecture of this machine, or else the first there is an image for.
func (o options) local() string {
	for _, arch := range o.architectures {
		if arch == runtime.GOARCH {
			return arch
		}
	}
	return o.architectures[0]
}
