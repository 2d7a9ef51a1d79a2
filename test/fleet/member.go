package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// Member is a cluster of the set: an API server, with the agent and a CoreDNS beside it.
type Member struct {
	Cluster
	Location
	Agent *Program
	DNS   *DNS
	// AgentFlags are additional flags of `clusterset member`, for the agent's next start.
	AgentFlags []string
	// HubKubeconfig is the file with the credentials that `clusterset join` created for the member. Its agent uses it.
	HubKubeconfig string
	// Beacon is the address of the agent's beacon. BeaconAddresses are those under which other clusters reach it. If there are none, the
	// agent has no beacon.
	Beacon          string
	BeaconAddresses []string
	// Metrics are the agent's metrics.
	Metrics Metrics

	bin Binaries
}

// NewMember describes a member. Before its agent and its DNS server start, it must have joined, and its API server must
// have Rights("member") and Rights("dns").
func NewMember(dir string, bin Binaries, at Location) *Member {
	m := &Member{
		Cluster: Cluster{Name: at.Cluster, Dir: filepath.Join(dir, at.Cluster)}, Location: at, bin: bin,
		HubKubeconfig: filepath.Join(dir, at.Cluster+"-hub.kubeconfig"),
	}
	m.Agent = m.newAgent("agent")
	m.DNS = NewDNS(&m.Cluster, bin, at, filepath.Join(dir, at.Cluster+"-dns"))
	return m
}

// Replica describes a second agent of the member, without the first one's flags. The name appears in its errors and in the
// name of its log.
func (m *Member) Replica(name string) *Member {
	r := &Member{Cluster: m.Cluster, Location: m.Location, bin: m.bin, DNS: m.DNS, HubKubeconfig: m.HubKubeconfig}
	r.Agent = r.newAgent(name)
	return r
}

func (m *Member) newAgent(name string) *Program {
	return &Program{
		Name: "the " + name + " of " + m.Name, Path: m.bin.Clusterset, Log: filepath.Join(filepath.Dir(m.Dir), m.Name+"-"+strings.ReplaceAll(name, " ", "-")+".log"),
		Args: m.agentArgs, Up: m.Metrics.Up,
	}
}

// agentArgs returns arguments like those in the agent's Deployment. The agent uses the credentials from join on the hub,
// and its own account's rights in its own cluster.
func (m *Member) agentArgs() ([]string, error) {
	kubeconfig, err := m.KubeconfigFor("clusterset-member")
	if err != nil {
		return nil, err
	}
	if err := m.Metrics.reserve(); err != nil {
		return nil, err
	}
	args := []string{
		"member", "--kubeconfig", kubeconfig, "--hub-kubeconfig", m.HubKubeconfig,
		"--hub-secret", api.SystemNamespace + "/" + api.HubSecret, "--heartbeat-interval", "1s",
		"--metrics-bind-address", m.Metrics.Addr, "--health-probe-bind-address", "0",
	}
	if len(m.BeaconAddresses) > 0 {
		args = append(args, "--beacon-bind-address", m.Beacon, "--beacon-addresses", strings.Join(m.BeaconAddresses, ","))
	}
	return append(args, m.AgentFlags...), nil
}

// Join runs `clusterset join` for a hub with additional flags, and mounts the Secret.
func (m *Member) Join(ctx context.Context, hub *Hub, flags ...string) error {
	args := append([]string{
		"join", m.Name, "--hub-kubeconfig", hub.Plane.Kubeconfig(), "--kubeconfig", m.Plane.Kubeconfig(), "--install-crds",
		"--zone", m.Zone, "--region", m.Region,
	}, flags...)
	if hub.Address != nil {
		server, err := hub.Address(m.Name)
		if err != nil {
			return err
		}
		args = append(args, "--hub-server", server)
	}
	if out, err := m.bin.Command(ctx, m.Dir, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("clusterset join of %s: %w\n%s", m.Name, err, out)
	}
	return m.MountHubSecret(ctx)
}

// MountHubSecret copies the Secret that `clusterset join` wrote into a file, as the kubelet does for the agent's pod.
func (m *Member) MountHubSecret(ctx context.Context) error {
	var secret corev1.Secret
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubSecret}, &secret); err != nil {
		return fmt.Errorf("get %s's Secret %s: %w", m.Name, api.HubSecret, err)
	}
	return os.WriteFile(m.HubKubeconfig, secret.Data[api.HubSecretKey], 0o600)
}
