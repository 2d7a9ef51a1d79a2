package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/preview"
)

// before prints in one line what a change is about to do, and returns it, or nil if there is nothing to print.
func before(ctx context.Context, hub *objects.Cluster, change preview.Change, stdout io.Writer) (*preview.Result, error) {
	state, err := fetchState(ctx, hub)
	if err != nil {
		return nil, err
	}
	result, err := state.Preview(ctx, []preview.Change{change}, preview.Options{})
	if err != nil {
		return nil, nil //nolint:nilerr // the command itself reports what is wrong with the change
	}
	_, err = fmt.Fprintln(stdout, result.Summary.Text)
	return result, err
}

// agreed asks a person at a terminal whether to go on if names are lost.
func agreed(name string, r *preview.Result, stdin *os.File, stdout io.Writer) error {
	for i, svc := range r.Services {
		if svc.Effects[0] != preview.Lost {
			break
		}
		if i == 10 {
			_, _ = fmt.Fprintln(stdout, "  …")
			break
		}
		_, _ = fmt.Fprintf(stdout, "  %s/%s\n", svc.Namespace, svc.Name)
	}
	if !isTerminal(stdin) {
		return fmt.Errorf("%s hasn't left: %s; clusterset preview leave %s shows where; use --yes to leave anyway", name, lostError{r.Summary.Effects[preview.Lost]}.Error(), name)
	}
	_, _ = fmt.Fprintf(stdout, "Take %s off the hub anyway? [y/N] ", name)
	answer, _ := bufio.NewReader(stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return fmt.Errorf("%s hasn't left; nothing was changed", name)
	}
	return nil
}
