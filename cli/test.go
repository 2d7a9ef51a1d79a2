package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/connectivity"
	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/version"
)

// testCommand is `clusterset test`.
type testCommand struct {
	clusters
	output
	contexts []string
	test     connectivity.Test
}

func newTest() *cobra.Command {
	var t testCommand
	cmd := configured(&cobra.Command{
		Use:   "test",
		Short: "Test names and connections between clusters, with pods of its own",
		Long: `Tests a set as its users use it. In a namespace of its own it starts a server in each cluster, exports it, and lets a pod in each
cluster ask for what every cluster exports, in each IP family:

  NAME          the name in clusterset.local has the ClusterSetIP of the cluster that asks
  CLUSTERSETIP  that address leads to the exporting cluster
  HEADLESS      the name of a headless service has the pods' addresses, and they answer
  OWN NAME      a Service without a pod leads to the exporting cluster by its own name

A table shows which pairs of clusters work. What doesn't work comes with its cause, as far as it can be told, and what to do.

The pods need no rights and run under the Pod Security level "restricted". Everything is deleted at the end, also after Ctrl-C. The
kubeconfig's account must be allowed to create a namespace and Services, Pods, ServiceAccounts and ServiceExports in it, and to read them and logs.

Exit codes: 0 everything works; 1 something doesn't, or the test failed; 2 usage error.`,
		Example: `  clusterset test --context beijing --context shanghai
  clusterset test --context beijing --context shanghai --image registry.example.com/clusterset:v1.2.3 --keep`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	flags := cmd.Flags()
	t.addFlag(cmd, "table", "json", "yaml")
	flags.StringVar(&t.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the clusters (default: as for kubectl)")
	flags.StringSliceVar(&t.contexts, "context", nil, "`contexts` of that file: the clusters to test, one or more (required)")
	flags.StringVar(&t.test.Namespace, "namespace", connectivity.DefaultNamespace, "`namespace` to create for the test. It must not exist")
	flags.StringVar(&t.test.Image, "image", defaultImage(), "`image` of this version of clusterset")
	flags.StringVar(&t.test.Zone, "zone", "clusterset.local", "`zone` of the names")
	flags.DurationVar(&t.test.Timeout, "timeout", 2*time.Minute, "how long the test may take, without cleaning up")
	flags.BoolVar(&t.test.Keep, "keep", false, "leave everything as it is at the end, to look into what doesn't work")
	cmd.AddCommand(newTestServer(), newTestClient())
	return cmd
}

// defaultImage returns the image of this release, empty if this is none.
func defaultImage() string {
	if v := version.String(); strings.HasPrefix(v, "v") && !strings.ContainsAny(v, "+-") {
		return "docker.io/clusterset/clusterset:" + v
	}
	return ""
}

func (t *testCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := t.validate(); err != nil {
		return err
	}
	t.clusters.timeout = 15 * time.Second
	for _, name := range t.contexts {
		c, err := t.open(ctx, name)
		if err != nil {
			return err
		}
		for _, other := range t.test.Clusters {
			if other.Name == c.Name {
				return usagef("contexts %s and %s lead to the same cluster, %s", other.Context, name, c.Name)
			}
		}
		t.test.Clusters = append(t.test.Clusters, c)
	}
	t.test.Progress = stderr
	report, err := t.test.Run(ctx)
	if err != nil && len(report.Pairs) == 0 {
		return err
	}
	if err := errors.Join(err, t.write(stdout, report, func() string { return connectivity.Render(report, colours(stdout)) })); err != nil {
		return err
	}
	if n := len(report.Problems); n > 0 {
		return errors.New(screen.Counted(n, "problem") + ", shown above")
	}
	return nil
}

func (t *testCommand) validate() error {
	switch {
	case len(t.contexts) == 0:
		return usagef("--context is required: the clusters to test, such as --context beijing --context shanghai")
	case t.test.Image == "":
		return usagef("--image is required, because this build isn't a release: the image of this version of clusterset, as the clusters pull it")
	case t.test.Timeout < 20*time.Second:
		return usagef("--timeout is %s; it must be at least 20s, so that pods can start", t.test.Timeout)
	}
	return nil
}

// open returns a cluster of the set. It must be a member: what isn't exports nothing.
func (t *testCommand) open(ctx context.Context, name string) (*connectivity.Cluster, error) {
	opened, err := t.in(name).openLocal()
	if err != nil {
		return nil, err
	}
	c := &connectivity.Cluster{Cluster: opened, Context: name}
	c.Rights = "the test creates a namespace and what is in it; use an account that may (clusterset test --help lists what)"
	if _, err := c.MemberClusters(ctx); err != nil {
		return nil, err
	}
	if c.Name = c.Cluster.Name(ctx); c.Name == "" {
		return nil, fmt.Errorf("the cluster of context %s isn't a member of a set: it has no ClusterProperty %s, no Secret %s/%s and no Reachability; clusterset join makes it one",
			name, api.ClusterProperty, api.SystemNamespace, api.HubSecret)
	}
	return c, nil
}

// newTestServer is what the test's servers run.
func newTestServer() *cobra.Command {
	var name string
	cmd := &cobra.Command{Use: "server", Hidden: true, Short: "Answer what clusterset test asks", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", ":"+strconv.Itoa(connectivity.Port))
		if err != nil {
			return err
		}
		context.AfterFunc(cmd.Context(), func() { _ = l.Close() })
		return beacon.Serve(cmd.Context(), l, name, "test")
	}}
	cmd.Flags().StringVar(&name, "name", "", "the cluster's `name`")
	return cmd
}

// newTestClient is what the test's clients run. They print their answers for the test to read.
func newTestClient() *cobra.Command {
	var asks []string
	var patience time.Duration
	cmd := &cobra.Command{Use: "client", Hidden: true, Short: "Ask what clusterset test wants to know", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		all := make([]connectivity.Ask, len(asks))
		for i, text := range asks {
			if err := json.Unmarshal([]byte(text), &all[i]); err != nil {
				return usagef("--ask: %w", err)
			}
		}
		return json.NewEncoder(cmd.OutOrStdout()).Encode(connectivity.AnswerAll(cmd.Context(), all, patience))
	}}
	cmd.Flags().StringArrayVar(&asks, "ask", nil, "a `question`")
	cmd.Flags().DurationVar(&patience, "patience", 0, "how long to try what fails")
	return cmd
}
