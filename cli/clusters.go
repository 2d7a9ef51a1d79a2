package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/cli/objects"
)

// clusters are the local cluster and the hub, as commands connect to them.
type clusters struct {
	kubeconfig, context       string
	hubKubeconfig, hubContext string
	timeout                   time.Duration
}

// exitHelp is part of the help of these commands.
const exitHelp = `

Exit codes: 0 success; 1 failure (stderr says what is wrong, and what to do about it); 2 usage error.`

func (c *clusters) addFlags(flags *pflag.FlagSet) {
	c.addLocalFlags(flags, "to look at")
	c.addHubFlags(flags, "to look at the hub as well")
}

func (c *clusters) addLocalFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster "+what+" (default: as for kubectl)")
	flags.StringVar(&c.context, "context", "", "`context` of that file (default: its current one)")
}

func (c *clusters) addHubFlags(flags *pflag.FlagSet, what string) {
	flags.StringVar(&c.hubKubeconfig, "hub-kubeconfig", "", "kubeconfig `file` of the hub, "+what)
	flags.StringVar(&c.hubContext, "hub-context", "", "`context` of that file, or of kubectl's (default: its current one)")
	flags.DurationVar(&c.timeout, "request-timeout", 10*time.Second, "how long to wait for each answer of an API server")
}

const (
	localFlags = "--kubeconfig and --context"
	hubFlags   = "--hub-kubeconfig and --hub-context"
)

func (c *clusters) local() (*rest.Config, error) {
	return c.load(c.kubeconfig, c.context, "--kubeconfig", "--context")
}

func (c *clusters) hub() (*rest.Config, error) {
	if !c.hasHub() {
		return nil, nil
	}
	return c.load(c.hubKubeconfig, c.hubContext, "--hub-kubeconfig", "--hub-context")
}

// openLocal returns the local cluster. Like openHub it sends no request yet.
func (c *clusters) openLocal() (*objects.Cluster, error) {
	config, err := c.local()
	if err != nil {
		return nil, err
	}
	return objects.Open(config, "cluster", localFlags)
}

// openHub returns the hub, or nil if none is given.
func (c *clusters) openHub() (*objects.Cluster, error) {
	config, err := c.hub()
	if config == nil {
		return nil, err
	}
	return objects.Open(config, "hub", hubFlags)
}

// given returns the clusters that are given, nil for one that isn't. If neither is, the local one counts as given.
func (c *clusters) given() (local, hub *objects.Cluster, err error) {
	if hub, err = c.openHub(); err == nil && (c.hasLocal() || hub == nil) {
		local, err = c.openLocal()
	}
	return local, hub, err
}

// filled puts the flags that lead to the clusters into a command in which they are in capitals.
func (c *clusters) filled(cure string) string {
	if c.hasHub() {
		cure = strings.ReplaceAll(cure, "--hub-context HUB", chosen(c.hubKubeconfig, c.hubContext, "--hub-"))
	}
	return strings.ReplaceAll(cure, "--context CLUSTER", cmp.Or(chosen(c.kubeconfig, c.context, "--"), "--context CLUSTER"))
}

// chosen are the flags that lead to the cluster of a kubeconfig, empty if none is known.
func chosen(file, context, prefix string) (flags string) {
	if file != "" {
		flags = prefix + "kubeconfig " + file + " "
	}
	if raw, err := deferred(file, "").RawConfig(); err == nil && cmp.Or(context, raw.CurrentContext) != "" {
		flags += prefix + "context " + cmp.Or(context, raw.CurrentContext)
	}
	return strings.TrimSpace(flags)
}

// in returns the clusters with another context of the same kubeconfig as the local one.
func (c clusters) in(context string) *clusters {
	c.context = context
	return &c
}

func (c *clusters) hasHub() bool { return c.hubKubeconfig != "" || c.hubContext != "" }

func (c *clusters) hasLocal() bool { return c.kubeconfig != "" || c.context != "" }

func usualNamespace(file, context string) (string, error) {
	namespace, _, err := deferred(file, context).Namespace()
	return namespace, err
}

// deferred returns the kubeconfig that kubectl or a pod would use, with the file and context given.
func deferred(file, context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

func (c *clusters) load(file, contextName, fileFlag, contextFlag string) (*rest.Config, error) {
	quiet()
	if known, err := deferred(file, "").ConfigAccess().GetStartingConfig(); err == nil && contextName != "" && known.Contexts[contextName] == nil {
		names := slices.Sorted(maps.Keys(known.Contexts))
		return nil, usagef("there is no context %q; %s can be: %s", contextName, contextFlag, cmp.Or(strings.Join(names, ", "), "none, without a kubeconfig"))
	}
	config, err := restConfig(file, contextName)
	if clientcmd.IsEmptyConfig(err) || err != nil && strings.Contains(err.Error(), "no configuration has been provided") {
		return nil, usagef("no kubeconfig found; set %s FILE or KUBECONFIG, or create ~/.kube/config", fileFlag)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; check %s", err, fileFlag)
	}
	config.Timeout = c.timeout
	return config, nil
}

// quiet silences client libraries: everything worth saying is printed, in one line. It runs once, because klog's logger may be set only
// while nothing logs.
var quiet = sync.OnceFunc(func() {
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
})
