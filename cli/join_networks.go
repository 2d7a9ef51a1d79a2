package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/join"
)

// servicesWord stands for the networks of the member's ClusterIPs in --cidrs.
const servicesWord = "services"

// networks replaces the word services in --cidrs by what the member states, and says where each network comes from. Only if it was asked for:
// in one network the ClusterIPs of clusters often overlap, where only pods are reached.
func (j *joinCommand) networks(ctx context.Context, member *reached, stdout io.Writer) error {
	if !j.services {
		return nil
	}
	stated, err := join.ServiceNetworks(ctx, member)
	switch {
	case errors.Is(err, join.ErrNoServiceCIDR):
		return fmt.Errorf("--cidrs %s: the API server at %s has %w; write the networks of its ClusterIPs instead of %s: they are kube-apiserver's --service-cluster-ip-range",
			servicesWord, member.Server, err, servicesWord)
	case err != nil:
		return member.explain(err)
	case len(stated) == 0:
		return fmt.Errorf("--cidrs %s: the API server at %s has no ServiceCIDR yet; try again in a moment", servicesWord, member.Server)
	}
	var said []string
	for _, cidr := range j.options.CIDRs {
		said = append(said, cidr+" (--cidrs)")
	}
	for _, n := range stated {
		if !slices.Contains(j.options.CIDRs, n.CIDR) {
			j.options.CIDRs = append(j.options.CIDRs, n.CIDR)
			said = append(said, n.CIDR+" ("+n.From+")")
		}
	}
	if err := j.options.Validate(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The networks of %s: %s.\n", j.options.Cluster, strings.Join(said, ", "))
	return err
}
