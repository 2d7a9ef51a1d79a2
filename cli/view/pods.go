package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/topology"
)

// Parts are what runs in pods.
const (
	PartMember = objects.PartMember
	PartHub    = objects.PartHub
	PartDNS    = objects.PartDNS
)

// Pod is a pod of ours in the cluster.
type Pod struct {
	Part, Namespace, Name string
	// Version is its image's tag, empty if it has none.
	Version string

	Ready    bool
	Restarts int32
	// Waits is why its container doesn't run, empty if that isn't known.
	Waits string
	// Location is what a DNS server's environment says, and ZoneOfNode that it has the zone of its node.
	Location   topology.Location
	ZoneOfNode bool

	settings Settings // of an agent
}

// Settings are the flags of a member's agent that decide what is imported, and where its credentials are.
type Settings struct {
	Imports          namespaces.Filter
	CreateNamespaces bool
	ExtendEverywhere bool
	DataPath         desired.DataPath
	HubSecret        string
}

// Pods reads our pods in the cluster, in whatever namespace they are: the chart labels them with their part.
func Pods(ctx context.Context, c *objects.Cluster) ([]Pod, error) {
	ours, err := c.Pods(ctx)
	if err != nil {
		return nil, err
	}
	var all []Pod
	for i := range ours {
		if ours[i].DeletionTimestamp == nil {
			all = append(all, podOf(&ours[i]))
		}
	}
	return all, nil
}

func podOf(pod *corev1.Pod) Pod {
	p := Pod{Part: pod.Labels[objects.Component], Namespace: pod.Namespace, Name: pod.Name}
	c := objects.Program(&pod.Spec, p.Part)
	p.Version = objects.ImageTag(c.Image)
	for _, condition := range pod.Status.Conditions {
		p.Ready = p.Ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == c.Name {
			p.Restarts = s.RestartCount
			if s.State.Waiting != nil {
				p.Waits = s.State.Waiting.Reason
			}
		}
	}
	switch p.Part {
	case PartDNS:
		p.locate(c.Env, pod.Labels)
	case PartMember:
		p.settings = settingsOf(slices.Concat(c.Command, c.Args), c.Env)
	}
	return p
}

// locate reads a DNS server's location. Kubernetes copies its node's labels to the pod, and the variables are from these unless they were set.
func (p *Pod) locate(env []corev1.EnvVar, labels map[string]string) {
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			label, _ := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata.labels['")
			e.Value = labels[strings.TrimSuffix(label, "']")]
		}
		if e.Value == "-" { // as in the Corefile
			e.Value = ""
		}
		switch e.Name {
		case objects.EnvCluster:
			p.Location.Cluster = strings.ToLower(e.Value)
		case "CLUSTERSET_ZONE":
			p.Location.Zone, p.ZoneOfNode = e.Value, e.ValueFrom != nil
		case "CLUSTERSET_REGION":
			p.Location.Region = e.Value
		}
	}
}

// settingsOf reads an agent's flags, as the agent does: each may be a variable of its environment instead.
func settingsOf(command []string, env []corev1.EnvVar) (s Settings) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Usage, flags.ParseErrorsAllowlist.UnknownFlags = func() {}, true
	flags.StringSliceVar(&s.Imports.Include, "import-namespaces", nil, "")
	flags.StringSliceVar(&s.Imports.Exclude, "exclude-namespaces", namespaces.System, "")
	flags.StringVar((*string)(&s.DataPath), "data-path", string(desired.DataPathPods), "")
	flags.BoolVar(&s.CreateNamespaces, "create-namespaces", false, "")
	flags.BoolVar(&s.ExtendEverywhere, "extend-everywhere", false, "")
	flags.StringVar(&s.HubSecret, "hub-secret", "", "")
	_ = flags.Parse(command) // an agent with a flag that is wrong doesn't run, nor with such a variable
	flags.VisitAll(func(f *pflag.Flag) {
		for _, e := range env {
			if !f.Changed && e.Value != "" && e.Name == "CLUSTERSET_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) {
				_ = flags.Set(f.Name, e.Value)
			}
		}
	})
	return s
}

// SettingsOf returns the settings of the cluster's agents, nil if they aren't known. Anyone who may create pods can create one that looks like an
// agent's. So those in the usual namespace count, if there are any, and if not, those that are all in one.
func SettingsOf(pods []Pod) *Settings {
	by := map[string]*Settings{} // namespace
	for i := range pods {
		if p := &pods[i]; p.Part == PartMember && (p.Ready || by[p.Namespace] == nil) {
			by[p.Namespace] = &p.settings
		}
	}
	if usual := by[api.SystemNamespace]; usual != nil || len(by) != 1 {
		return usual
	}
	return slices.Collect(maps.Values(by))[0]
}

// imports reports whether the agent imports into a namespace. While its settings aren't known these are the defaults.
func (s *Settings) imports(namespace string) bool {
	if s == nil {
		return namespaces.Filter{Exclude: namespaces.System}.Has(namespace)
	}
	return s.Imports.Has(namespace)
}

// Extends returns what the agent makes of a Service that asks to be extended, in a namespace with these labels. While its settings aren't known, a
// Service that is extended may be, whatever its namespace says.
func (s *Settings) Extends(svc *corev1.Service, labels map[string]string, is bool) desired.Extended {
	everywhere := is
	if s != nil {
		everywhere = s.ExtendEverywhere
	}
	return desired.Extended{
		Service: svc, Allowed: desired.MayExtend(svc.Namespace, svc.Name, labels, everywhere), Excluded: !s.imports(svc.Namespace),
	}
}

// agentProblems finds what keeps this cluster's agent from its work, as far as that can be seen here.
func agentProblems(r *Report, f Facts) (all []Problem) {
	l := f.Local
	add := func(reason, message, cure string) {
		all = append(all, ofCluster(cmp.Or(r.Cluster, "this cluster"), reason, message, cure))
	}
	if l.SecretMissing {
		add("NoCredentials", "there is no Secret "+l.Agent.HubSecret+" with its agent's credentials for the hub: one that starts waits for it, one that runs works until its token expires",
			Rejoin(r.Cluster)+"; or, with clusterset hub --manage-members, copy the Secret from the hub (docs/gitops.md)")
	}
	member := slices.ContainsFunc(l.Members, func(m clustersetv1alpha1.MemberCluster) bool {
		return !m.Left() && (m.Name == r.Cluster || r.Cluster == "" && desired.Owned(&m))
	})
	if l.AgentLease == nil || !member {
		return all
	}
	silent, at := f.Now.Sub(l.AgentLease.Spec.RenewTime.Time), l.AgentLease.Namespace
	valid := time.Duration(ptr.Deref(l.AgentLease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if silent > max(3*valid, 10*time.Second) { // who ends gives it up, and the next takes it a moment later
		add("AgentStopped", fmt.Sprintf("the agent of this cluster has not renewed its Lease %s/%s for %s: exports and imports stand still", at, l.AgentLease.Name, screen.Age(silent)),
			fmt.Sprintf("kubectl -n %s get deployments,pods -l %s=%s shows whether clusterset member runs: start it, or read its log; clusterset doctor says if only this machine's clock is ahead",
				at, objects.Component, PartMember))
	}
	return all
}

// Rejoin is the command that makes the local cluster a member again, for administrators. The commands that print it put flags that they know in place of
// what is in capitals.
func Rejoin(cluster string) string {
	return "clusterset join " + cmp.Or(cluster, "CLUSTER") + " --rejoin --hub-context HUB --context CLUSTER"
}
