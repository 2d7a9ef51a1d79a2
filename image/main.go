package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/semver"
)

const root = ".."

type options struct {
	out       string // the folder of all releases
	image     string // the file to write the image to, if only the image is built
	name      string
	version   string
	binaries  string
	platforms []platform
	created   time.Time
}

// platform is what a program is compiled for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	parts, err := partsOf(ctx, o.platforms)
	if err != nil {
		return err
	}
	if o.binaries == "" {
		if o.binaries, err = os.MkdirTemp("", "clusterset-release-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.binaries)
		if err := build(ctx, o, log); err != nil {
			return err
		}
	}
	all, err := newIndex(o, notices(parts))
	if err != nil {
		return err
	}
	if o.image != "" {
		if err := writeImage(o.image, all, o); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(log, "%s: %s for %s\n", o.image, o.reference(), strings.Join(o.architectures(), ", "))
		return nil
	}
	return writeRelease(all, parts, o, log)
}

func parse(args []string, log io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.out, "o", filepath.Join(root, "dist"), "`folder` to write the release to, in a folder named for its version")
	flags.StringVar(&o.image, "image", "", "write the image to this `file` and nothing else")
	flags.StringVar(&o.name, "name", "docker.io/clusterset/clusterset", "`name` of the image with its registry, without which the kubelet does not find it in containerd")
	flags.StringVar(&o.version, "version", "", "`version` such as v1.2.3, which is also the image's tag; with -image any tag")
	flags.StringVar(&o.binaries, "binaries", "", "`folder` with programs that are built already, in a folder os-arch for each platform (default: build them)")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "`platforms`; the image is for those of Linux")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, p := range strings.Split(*platforms, ",") {
		goos, arch, ok := strings.Cut(p, "/")
		if !ok {
			return o, fmt.Errorf("-platforms has %q; want os/arch, such as linux/amd64", p)
		}
		if o.image == "" || goos == linux {
			o.platforms = append(o.platforms, platform{goos, arch})
		}
	}
	if len(o.architectures()) == 0 {
		return o, fmt.Errorf("-platforms has %q; want linux/amd64 or linux/arm64 among them, for the image", *platforms)
	}
	if o.image == "" && (!semver.IsValid(o.version) || semver.Canonical(o.version) != o.version) {
		return o, fmt.Errorf("-version is %q; want v and a semantic version, such as v1.2.3 or v1.2.3-rc.1", o.version)
	}
	o.created, err = sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
	return o, err
}

// sourceDate is the one time in a release: https://reproducible-builds.org/specs/source-date-epoch/, else the epoch. A time of
// its own for each build would make each a different release.
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

// reference is the image's full name.
func (o options) reference() string { return o.name + ":" + o.version }

// chartVersion is the version as Helm writes it.
func (o options) chartVersion() string { return strings.TrimPrefix(o.version, "v") }

const linux = "linux"

func (o options) architectures() (all []string) {
	for _, p := range o.platforms {
		if p.os == linux {
			all = append(all, p.arch)
		}
	}
	return all
}

func (o options) binary(p platform, name string) string {
	return filepath.Join(o.binaries, p.os+"-"+p.arch, name)
}
