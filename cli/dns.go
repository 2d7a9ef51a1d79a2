package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/cli/clusterdns"
	"github.com/clusterset/clusterset/cli/doctor"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
)

// dnsCommand is a command of `clusterset dns`.
type dnsCommand struct {
	doctorCommand
	waiting
	dry
	remove bool
}

const dnsHelp = `

It knows CoreDNS of kubeadm, kind and EKS (ConfigMap coredns), AKS and k3s (coredns-custom), RKE2 (HelmChartConfig rke2-coredns), OpenShift
(dns.operator/default), kube-dns, and NodeLocal DNSCache in front of any of them.` + exitHelp

func newDNS() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Let the cluster's DNS forward the set's zones to the clusterset servers",
		Long:  "Shows and changes what the DNS that pods ask does with the set's zones." + dnsHelp,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	show, enable, disable := dnsCommand{}, dnsCommand{waiting: waiting{wait: true}}, dnsCommand{remove: true}
	cmd.AddCommand(show.command(show.show, &cobra.Command{
		Use:   "show",
		Short: "Show where pods' queries go, and what enable would change",
	}), enable.command(enable.write, &cobra.Command{
		Use:   "enable",
		Short: "Forward pods' queries to the clusterset servers",
		Long: `Lets the cluster's DNS, and NodeLocal DNSCache in front of it, forward the set's zones to the Service of the clusterset servers. It adds a
block between two comments, or a server called clusterset, and changes nothing else. If the Service has another address now, it replaces
the block. A Corefile that doesn't parse, or has something else for a zone, stays as it is.

Then it waits until each pod of the cluster's DNS answers the zones: CoreDNS takes up to two minutes to read a changed ConfigMap.`,
		Example: `  clusterset dns enable --context beijing --dry-run
  clusterset dns enable --context beijing`,
	}), disable.command(disable.write, &cobra.Command{
		Use:   "disable",
		Short: "Remove what enable wrote, so that pods can't resolve names of the set",
	}))
	return cmd
}

func (d *dnsCommand) command(run func(context.Context, *objects.Cluster, io.Writer) error, cmd *cobra.Command) *cobra.Command {
	cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + dnsHelp
	configured(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d.clusters.timeout = 30 * time.Second
		c, err := d.openLocal()
		if err != nil {
			return err
		}
		c.Rights = "use the kubeconfig of an administrator of the cluster"
		d.rehearse(c, "In the cluster")
		return d.say(cmd.OutOrStdout(), run(cmd.Context(), c, cmd.OutOrStdout()))
	}
	flags := cmd.Flags()
	d.addLocalFlags(flags, "whose DNS it is")
	flags.StringSliceVar(&d.zones, "zones", doctor.Zones, "`zones` that clients query")
	if cmd.Name() != "show" {
		d.addDryRun(flags)
	}
	if d.wait {
		flags.StringVar(&d.dns, "dns", "", "`address` at which to ask the cluster's DNS, with a port unless that is 53 (default: its pods, through the API server)")
		d.waiting.addFlags(flags, "the cluster's DNS answers the zones")
	}
	return cmd
}

// edit is a place, and what its text is to be.
type edit struct {
	*clusterdns.Place
	to string
}

// look reads which DNS the cluster has, and returns what differs from what is wanted, and how.
func (d *dnsCommand) look(ctx context.Context) (f *doctor.Facts, all []edit, differences string, err error) {
	g, err := d.gatherer()
	if err != nil {
		return nil, nil, "", err
	}
	g.Hub = nil
	f = g.Ask(ctx)
	if err := cmp.Or(f.Cluster.Err, f.WorkloadsErr, f.ClusterDNS.Err, f.NodeLocalDNS.Err); err != nil {
		return f, nil, "", err
	}
	address := ""
	if ours := f.Ours(); ours != nil {
		address = ours.Spec.ClusterIP
	} else if !d.remove {
		return f, nil, "", errors.New("no Service of this cluster leads to clusterset DNS servers: install the chart, with dns.enabled")
	}
	for i, p := range []*clusterdns.Place{&f.ClusterDNS, &f.NodeLocalDNS} {
		to, err := p.Without(f.Zones, address)
		if !d.remove {
			to, err = p.With(f.Zones, address, f.Right([]string{"clusterdns", "nodelocaldns"}[i]))
		}
		if err != nil {
			return f, nil, "", err
		}
		if to != p.Text {
			all = append(all, edit{p, to})
			differences += clusterdns.Difference(p.Edited, p.Text, to)
		}
	}
	return f, all, differences, nil
}

func (d *dnsCommand) show(ctx context.Context, _ *objects.Cluster, w io.Writer) error {
	f, _, differences, err := d.look(ctx)
	if f == nil {
		return err
	}
	diagnosis := d.diagnosis(f)
	diagnosis.Findings = slices.DeleteFunc(diagnosis.Findings, func(f doctor.Finding) bool {
		return f.Check != "clusterdns" && f.Check != "nodelocaldns"
	})
	_, err2 := io.WriteString(w, doctor.Render(diagnosis, colours(w))+differences)
	return errors.Join(err, err2)
}

// write writes what differs from what is wanted, once nothing is in the way of it, and waits until it has its effect.
func (d *dnsCommand) write(ctx context.Context, c *objects.Cluster, w io.Writer) error {
	f, all, differences, err := d.look(ctx)
	if err != nil {
		return err
	}
	if at := slices.IndexFunc(all, func(e edit) bool { return e.Fixed != "" }); at >= 0 {
		return errors.New(all[at].Fixed + "; clusterset dns show says what it needs")
	}
	if _, err := io.WriteString(w, cmp.Or(differences, "Nothing has to be changed.\n")); err != nil {
		return err
	}
	for _, e := range all {
		if err := e.Write(ctx, c, e.to); err != nil {
			return c.Explain(fmt.Errorf("%s: %w", e.Edited, err))
		}
	}
	if d.dryRun || !d.wait {
		return nil
	}
	if _, err := io.WriteString(w, "Waiting until the cluster's DNS answers. It may take two minutes to read what was changed.\n"); err != nil {
		return err
	}
	if err := d.until(ctx, func(ctx context.Context) (string, error) { return silent(ctx, c, f) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "It answers names in %s.\n", screen.And(f.Zones))
	return err
}

// silent says which server doesn't answer the zones yet, empty if all do.
func silent(ctx context.Context, c *objects.Cluster, f *doctor.Facts) (string, error) {
	replies := map[string][]clusterdns.Reply{}
	if f.DNSServer != "" {
		replies[f.DNSServer] = clusterdns.Ask(ctx, "udp", f.DNSServer, f.Zones)
	} else if err := f.ClusterDNS.AskPods(ctx, c, f.Zones, replies); err != nil {
		return "", err
	}
	for server, all := range replies {
		if at := slices.IndexFunc(all, func(r clusterdns.Reply) bool { return !r.Ours() }); at >= 0 {
			return fmt.Sprintf("%s doesn't answer dns-version.%s as a clusterset server does", server, all[at].Zone), nil
		}
	}
	return map[bool]string{true: "no pod of the cluster's DNS is ready; --dns asks an address"}[len(replies) == 0], nil
}
