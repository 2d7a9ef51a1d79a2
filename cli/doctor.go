package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/doctor"
)

// doctorCommand is `clusterset doctor`.
type doctorCommand struct {
	clusters
	output
	dns, as                       string
	zones, roles                  []string
	clusterDNS, nodeLocal, secret string
}

func newDoctor() *cobra.Command {
	var d doctorCommand
	cmd := configured(&cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps cross-cluster names from working, and how to fix it",
		Long: `Checks the cluster, the hub with --hub-kubeconfig, and a DNS server with --dns for known problems: kinds that aren't served
or are outdated, missing rights, cluster DNS and NodeLocal DNSCache without a stanza for the set's zones, clocks that differ,
servers that don't answer, a token that is about to expire, services that lead only to silent or drained clusters. Each problem
comes with its cure. Nothing is changed.

It checks the rights of the kubeconfig's account, or of another with --as, for the parts given with --for.

Exit codes: 0 no problems; 1 problems, or failure; 2 usage error.`,
		Example: `  clusterset doctor --hub-kubeconfig hub.yaml --dns 10.96.0.10
  clusterset doctor --for member --as system:serviceaccount:clusterset-system:clusterset-member`,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), cmd.OutOrStdout()) },
	})
	flags := cmd.Flags()
	d.clusters.addFlags(flags)
	d.addFlag(cmd, "table", "json", "yaml")
	flags.StringVar(&d.dns, "dns", "", "`address` of a DNS server to query, with a port unless that is 53 (default: none)")
	flags.StringSliceVar(&d.zones, "zones", doctor.Zones, "`zones` that clients query")
	flags.StringSliceVar(&d.roles, "for", []string{"cli"}, "`parts` whose rights to check: "+strings.Join(doctor.Roles, ", "))
	flags.StringVar(&d.as, "as", "", "`user` whose rights to check, such as system:serviceaccount:NAMESPACE:NAME (default: the kubeconfig's)")
	flags.StringVar(&d.clusterDNS, "dns-configmap", doctor.ClusterDNS.String(), "`namespace/name` of the cluster DNS's ConfigMap")
	flags.StringVar(&d.nodeLocal, "nodelocaldns-configmap", doctor.NodeLocalDNS.String(), "`namespace/name` of NodeLocal DNSCache's ConfigMap")
	flags.StringVar(&d.secret, "secret", api.SystemNamespace+"/"+api.HubSecret, "`namespace/name` of the Secret with the member agent's credentials")
	return cmd
}

func (d *doctorCommand) run(ctx context.Context, w io.Writer) error {
	gatherer, err := d.gatherer()
	if err != nil {
		return err
	}
	diagnosis := doctor.Diagnose(gatherer.Gather(ctx))
	for i := range diagnosis.Findings {
		diagnosis.Findings[i].Cure = d.filled(diagnosis.Findings[i].Cure)
	}
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

func (d *doctorCommand) gatherer() (*doctor.Gatherer, error) {
	g := &doctor.Gatherer{Roles: d.roles, As: d.as, ClusterFlags: localFlags, HubFlags: hubFlags}
	for _, role := range d.roles {
		if !slices.Contains(doctor.Roles, role) {
			return nil, usagef("--for is %q; want %s", role, strings.Join(doctor.Roles, ", "))
		}
	}
	for _, zone := range d.zones {
		zone = strings.ToLower(strings.TrimSuffix(zone, "."))
		if zone == "global" {
			zone = "svc.global" // the rest of that top-level domain isn't ours
		}
		g.Zones = append(g.Zones, zone)
	}
	var err error
	for _, key := range []struct {
		flag, text string
		to         *types.NamespacedName
	}{
		{"--dns-configmap", d.clusterDNS, &g.ClusterDNS}, {"--nodelocaldns-configmap", d.nodeLocal, &g.NodeLocalDNS}, {"--secret", d.secret, &g.Secret},
	} {
		if *key.to, err = parseKey(key.text); err != nil {
			return nil, usagef("%s: %w", key.flag, err)
		}
	}
	if g.DNSServer, err = withPort(d.dns); err != nil {
		return nil, usagef("--dns: %w", err)
	}
	if g.Cluster, err = d.local(); err != nil {
		return nil, err
	}
	if g.Hub, err = d.hub(); err != nil {
		return nil, err
	}
	g.MemberNamespace = d.memberNamespace()
	return g, nil
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

// memberNamespace returns the namespace that the hub's kubeconfig is for, if it is a member's as join creates it.
func (d *doctorCommand) memberNamespace() string {
	if !d.hasHub() {
		return ""
	}
	namespace, err := usualNamespace(d.hubKubeconfig, d.hubContext)
	if _, ok := api.ClusterOfNamespace(namespace); err != nil || !ok {
		return ""
	}
	return namespace
}
