package cli

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/clusterset/clusterset/cli/dryrun"
	"github.com/clusterset/clusterset/cli/objects"
)

// dry is the flag --dry-run of the commands that write.
type dry struct {
	dryRun bool
	says   []func() string // what would change in each cluster
}

func (d *dry) addDryRun(flags *pflag.FlagSet) {
	flags.BoolVar(&d.dryRun, "dry-run", false, "say what would change, object by object, let the API servers check it, and change nothing")
}

// rehearse makes what is written to a cluster a dry run, with --dry-run. where is the cluster in words, such as "On the hub".
func (d *dry) rehearse(c *objects.Cluster, where string) {
	if d.dryRun {
		var says func() string
		c.Client, says = dryrun.New(c.Client, where+" at "+c.Server)
		d.says = append(d.says, says)
	}
}

// say says what would have changed until err, and returns err.
func (d *dry) say(w io.Writer, err error) error {
	if !d.dryRun {
		return err
	}
	for _, says := range d.says {
		_, _ = io.WriteString(w, says())
	}
	if err != nil {
		return fmt.Errorf("nothing was changed; it would fail: %w", err)
	}
	_, err = io.WriteString(w, "Nothing was changed.\n")
	return err
}
