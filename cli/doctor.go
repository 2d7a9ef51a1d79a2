package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/doctor"
)

// doctorCommand is `clusterset doctor`.
type doctorCommand struct {
	clusters
	output
	dns   string
	zones []string
}

func newDoctor() *cobra.Command {
	var d doctorCommand
	cmd := configured(&cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps cross-cluster names from working, and how to fix it",
		Long: `Checks the cluster, the hub with --hub-kubeconfig, and a DNS server with --dns for known problems: kinds that aren't served
or are outdated, missing rights of this account, cluster DNS and NodeLocal DNSCache without a stanza for the set's zones, clocks that differ,
servers that don't answer, a token that is about to expire, services that lead only to silent or drained clusters. Each problem
comes with its cure. Nothing is changed.

Exit codes: 0 no problems; 1 problems, or failure; 2 usage error.`,
		Example: `  clusterset doctor --hub-kubeconfig hub.yaml --dns 10.96.0.10`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	d.clusters.addFlags(flags)
	d.addFlag(cmd, "table", "json", "yaml")
	flags.StringVar(&d.dns, "dns", "", "`address` of a DNS server to query, with a port unless that is 53 (default: none)")
	flags.StringSliceVar(&d.zones, "zones", doctor.Zones, "`zones` that clients query")
	return cmd
}

func (d *doctorCommand) run(ctx context.Context, w io.Writer) error {
	gatherer, err := d.gatherer()
	if err != nil {
		return err
	}
	diagnosis := d.diagnosis(gatherer.Gather(ctx))
	if err := d.write(w, diagnosis, func() string { return doctor.Render(diagnosis, colours(w)) }); err != nil {
		return err
	}
	switch diagnosis.Problems {
	case 0:
		return nil
	case 1:
		return errors.New("1 problem, shown above with its fix")
	}
	return fmt.Errorf("%d problems, shown above with their fixes", diagnosis.Problems)
}

func (d *doctorCommand) diagnosis(f *doctor.Facts) doctor.Diagnosis {
	diagnosis := doctor.Diagnose(f)
	for i := range diagnosis.Findings {
		diagnosis.Findings[i].Cure = d.filled(diagnosis.Findings[i].Cure)
	}
	return diagnosis
}

func (d *doctorCommand) gatherer() (*doctor.Gatherer, error) {
	g := &doctor.Gatherer{ClusterFlags: localFlags, HubFlags: hubFlags, Rights: true}
	for _, zone := range d.zones {
		g.Zones = append(g.Zones, strings.ToLower(strings.TrimSuffix(zone, ".")))
	}
	var err error
	if g.DNSServer, err = withPort(d.dns); err != nil {
		return nil, usagef("--dns: %w", err)
	}
	if g.Cluster, err = d.local(); err != nil {
		return nil, err
	}
	g.Hub, err = d.hub()
	return g, err
}

func withPort(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address, nil
	}
	host := strings.Trim(address, "[]")
	if net.ParseIP(host) == nil && strings.ContainsAny(host, ":/ ") {
		return "", fmt.Errorf("%q isn't an address; use one like 10.96.0.10 or [fd00::10]:53", address)
	}
	return net.JoinHostPort(host, "53"), nil
}
