package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/bundle"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
)

// bundleCommand is `clusterset bundle`.
type bundleCommand struct {
	clusters
	contexts []string
	file     string
}

func newBundle() *cobra.Command {
	var b bundleCommand
	cmd := configured(&cobra.Command{
		Use:   "bundle",
		Short: "Collect what a maintainer needs to help, in one archive, without secrets",
		Long: `Writes an archive with what a maintainer needs to understand a problem: the objects of clusterset and of the Multi-Cluster
Services API with their conditions, Events, the state, last logs and metrics of clusterset's pods, and the output of clusterset status, services
and doctor, for each context and the hub. What can't be read is left out and listed in left-out.txt.

It reads no Secrets, ConfigMaps or variables of pods, and replaces what looks like a token, a password or a private key. It has names of services and
clusters, and addresses: look into it before you hand it on.` + exitHelp,
		Example: `  clusterset bundle --context beijing --context shanghai --hub-context hub
  clusterset bundle --context beijing --file beijing.tar.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	b.addHubFlags(flags, "to collect from the hub as well")
	flags.StringVar(&b.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the members (default: as for kubectl)")
	flags.StringSliceVar(&b.contexts, "context", nil, "`contexts` of that file, the members to collect from (default: its current one, or without one the hub alone)")
	flags.StringVar(&b.file, "file", "", "`file` to write (default: clusterset-bundle-TIME.tar.gz). It must not exist")
	return cmd
}

func (b *bundleCommand) run(ctx context.Context, stdout io.Writer) (err error) {
	now := time.Now()
	if b.file == "" {
		b.file = "clusterset-bundle-" + now.UTC().Format("20060102-150405") + ".tar.gz"
	}
	all, err := b.open()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(b.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	w := bundle.NewWriter(f, now)
	w.Add("version.txt", []byte(programVersion()))
	for _, c := range all {
		w.Collect(ctx, c.Cluster)
		for _, command := range [][]string{{"status", "-o", "wide"}, {"services", "-A", "-o", "wide"}, {"doctor"}} {
			w.Add(c.Name+"/"+command[0]+".txt", printed(ctx, append(command, c.flags...)))
		}
	}
	err = errors.Join(w.Close(), f.Close(), ctx.Err())
	if err != nil {
		_ = os.Remove(b.file)
		return fmt.Errorf("write %s: %w", b.file, err)
	}
	_, err = fmt.Fprintf(stdout, "%s is written. %s couldn't be read, see left-out.txt in it. Look into it before you hand it on.\n", b.file, screen.Counted(len(w.Left), "thing"))
	return err
}

// bundled is a cluster with the flags that other commands need to read it.
type bundled struct {
	*bundle.Cluster
	flags []string
}

func (b *bundleCommand) open() (all []bundled, err error) {
	add := func(folder string, c *objects.Cluster, kubeconfig, context string) error {
		from, err := bundle.NewCluster(c, folder)
		read := bundled{Cluster: from}
		for _, flag := range [][2]string{
			{"--kubeconfig", kubeconfig}, {"--context", context}, {"--hub-kubeconfig", b.hubKubeconfig}, {"--hub-context", b.hubContext},
		} {
			if flag[1] != "" {
				read.flags = append(read.flags, flag[:]...)
			}
		}
		all = append(all, read)
		return err
	}
	if b.hasHub() {
		c, err := b.openHub()
		if err != nil {
			return nil, err
		}
		if err := add("hub", c, b.hubKubeconfig, b.hubContext); err != nil {
			return nil, err
		}
	}
	contexts := b.contexts
	if len(contexts) == 0 && (!b.hasHub() || b.kubeconfig != "") {
		contexts = []string{""}
	}
	for _, name := range contexts {
		c, err := b.in(name).openLocal()
		if err != nil {
			return nil, err
		}
		folder := "member-" + strings.NewReplacer("/", "_", `\`, "_", ":", "_").Replace(name)
		if err := add(strings.TrimSuffix(folder, "-"), c, b.kubeconfig, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// printed is what another command prints.
func printed(ctx context.Context, args []string) []byte {
	var out bytes.Buffer
	root := newRoot()
	for _, cmd := range root.Commands() {
		cmd.PreRunE = nil // the environment has the flags of bundle, not those of the commands for one of its clusters
	}
	code := execute(ctx, root, args, &out, &out)
	fmt.Fprintf(&out, "[%d]\n", code)
	return out.Bytes()
}
