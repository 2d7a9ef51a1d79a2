package view

import (
	"context"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/topology"
)

// Parts are what runs in pods.
const (
	PartMember = "member"
	PartHub    = "hub"
	PartDNS    = "dns"
)

// Pod is a pod of ours in the cluster.
type Pod struct {
	Part, Namespace, Name string
	// Version is its image's tag, empty if it has none.
	Version  string
	Ready    bool
	Restarts int32
	// Waits is why its container doesn't run, empty if that isn't known.
	Waits string
	// MetricsPort is its port called metrics, 0 if it has none.
	MetricsPort int32
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
	var list corev1.PodList
	if err := c.List(ctx, &list, client.HasLabels{labelPart}); err != nil {
		return nil, c.Words(err)
	}
	var all []Pod
	for i := range list.Items {
		if p, ok := podOf(&list.Items[i]); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

const labelPart = "app.kubernetes.io/component"

// podOf reads a pod, which is ours if it runs one of our programs: other software has parts called dns and hub too.
func podOf(pod *corev1.Pod) (Pod, bool) {
	p := Pod{Part: pod.Labels[labelPart], Namespace: pod.Namespace, Name: pod.Name}
	c := Program(&pod.Spec, p.Part)
	if c == nil || pod.DeletionTimestamp != nil {
		return p, false
	}
	p.Version, _ = objects.ImageTag(c.Image)
	for _, port := range c.Ports {
		if port.Name == "metrics" {
			p.MetricsPort = port.ContainerPort
		}
	}
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
	return p, true
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
		case envCluster:
			p.Location.Cluster = strings.ToLower(e.Value)
		case "CLUSTERSET_ZONE":
			p.Location.Zone, p.ZoneOfNode = e.Value, e.ValueFrom != nil
		case "CLUSTERSET_REGION":
			p.Location.Region = e.Value
		}
	}
}

const envCluster = "CLUSTERSET_CLUSTER"

// Program returns the container that runs the program of a part, nil if none does.
func Program(spec *corev1.PodSpec, part string) *corev1.Container {
	for i := range spec.Containers {
		if c := &spec.Containers[i]; runs(c, part) {
			return c
		}
	}
	return nil
}

func runs(c *corev1.Container, part string) bool {
	if len(c.Command) == 0 {
		return false
	}
	switch program := path.Base(c.Command[0]); part {
	case PartMember, PartHub:
		return program == "clusterset" && len(c.Command) > 1 && c.Command[1] == part
	case PartDNS:
		return program == "coredns" && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == envCluster })
	}
	return false
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

// SettingsOf returns the settings of the cluster's agents, nil if no pod of one is known. Anyone who may create pods can create one that looks like
// an agent's. So those in the usual namespace count, if there are any, and if not, none where those of several namespaces differ.
func SettingsOf(pods []Pod) *Settings {
	var agents, usual []Pod
	for _, p := range pods {
		if p.Part == PartMember {
			agents = append(agents, p)
		}
		if p.Part == PartMember && p.Namespace == api.SystemNamespace {
			usual = append(usual, p)
		}
	}
	if len(usual) > 0 {
		agents = usual
	}
	if len(agents) == 0 {
		return nil
	}
	for i := range agents {
		if agents[i].Namespace != agents[0].Namespace && !reflect.DeepEqual(agents[i].settings, agents[0].settings) {
			return nil
		}
	}
	return &agents[max(0, slices.IndexFunc(agents, func(p Pod) bool { return p.Ready }))].settings
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
