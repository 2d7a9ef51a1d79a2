// Package connectivity tests a cluster set as its users use it: pods in every cluster ask for the names of what every cluster exports, and
// connect to what the names lead to. It is `clusterset test`.
//
// objects.go says what is created, client.go is what the pods run, and verdict.go makes a Report of what was seen: all three are pure or
// stand alone. run.go creates, waits, reads and cleans up.
package connectivity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/mcs"
)

// Cluster is a cluster of the set, with an account that may create the test's objects.
type Cluster struct {
	*objects.Cluster
	Name, Context string
}

// Test is one run.
type Test struct {
	Clusters               []*Cluster
	Namespace, Image, Zone string
	// Timeout is how long the whole may take, without cleaning up.
	Timeout time.Duration
	// Keep leaves everything as it is at the end.
	Keep bool
	// Progress says what it waits for.
	Progress io.Writer

	created []*Cluster
}

const (
	pollEvery = time.Second
	// cleanFor is how long cleaning up may take, also after an interrupt.
	cleanFor = time.Minute
)

// Run creates the test's objects in all clusters, asks, cleans up and reports. Nothing is left behind unless it says so.
func (t *Test) Run(ctx context.Context) (report Report, err error) {
	defer func() {
		err = errors.Join(err, t.cleanUp(context.WithoutCancel(ctx)))
	}()
	if err := t.create(ctx); err != nil {
		return report, err
	}
	until := time.Now().Add(t.Timeout)
	all, err := t.wait(ctx, "the servers, exports and imports", time.Now().Add(t.Timeout/2), waitsFor)
	if err != nil {
		return report, err
	}
	for i, c := range t.Clusters {
		if err := t.ask(ctx, c, asksFor(all[i], all, t.Namespace, t.Zone)); err != nil {
			return report, err
		}
	}
	after, err := t.wait(ctx, "the answers", until, unanswered)
	if err != nil {
		return report, err
	}
	for i, c := range t.Clusters {
		all[i].Client = after[i].Client // the rest is what the questions are about
		if all[i].Answers, err = t.answers(ctx, c, all[i]); err != nil {
			all[i].Client.Why = err.Error()
		}
	}
	return Judge(all, t.Namespace, t.Zone), ctx.Err()
}

func unanswered(all []*Facts) (missing []string) {
	for _, f := range all {
		if !f.Client.Done && f.Client.Why != notThere {
			missing = append(missing, f.Cluster)
		}
	}
	return missing
}

// create creates everything but the clients. It makes the namespace in every cluster before anything is exported, because services are imported only into namespaces that exist.
func (t *Test) create(ctx context.Context) error {
	var names []string
	for _, c := range t.Clusters {
		names = append(names, c.Name)
		// An interrupt doesn't end this request: then nobody would know whether there is a namespace to clean up.
		switch err := c.Create(context.WithoutCancel(ctx), namespaceObject(t.Namespace), client.FieldOwner(api.FieldManagerCLI)); {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("namespace %s exists in %s already: another test runs, or one was kept; delete it with kubectl --context %s delete namespace %s, or use another --namespace",
				t.Namespace, c.Name, c.Context, t.Namespace)
		case err != nil:
			return c.Words(err)
		}
		t.created = append(t.created, c)
	}
	for _, c := range t.Clusters {
		version, err := mcs.Served(c.RESTMapper(), "ServiceExport")
		if err != nil {
			return c.Words(err)
		}
		for _, o := range objectsFor(t.Namespace, c.Name, t.Image, names, version) {
			if err := c.Create(ctx, o, client.FieldOwner(api.FieldManagerCLI)); err != nil {
				return fmt.Errorf("create %T %s in %s: %w", o, o.GetName(), c.Name, c.Words(err))
			}
		}
	}
	return nil
}

func (t *Test) ask(ctx context.Context, c *Cluster, asks []Ask) error {
	if len(asks) == 0 {
		return nil
	}
	pod := clientFor(t.Namespace, t.Image, asks, t.Timeout/4)
	if err := c.Create(ctx, pod, client.FieldOwner(api.FieldManagerCLI)); err != nil {
		return fmt.Errorf("create the client in %s: %w", c.Name, c.Words(err))
	}
	return nil
}

func (t *Test) answers(ctx context.Context, c *Cluster, f *Facts) (answers []Answer, err error) {
	if !f.Client.Done {
		return nil, errors.New(f.Client.Why)
	}
	pods, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	content, err := pods.CoreV1().Pods(t.Namespace).GetLogs(clientPod, &corev1.PodLogOptions{LimitBytes: ptr.To[int64](4 << 20)}).DoRaw(ctx)
	if err != nil {
		return nil, c.Words(err)
	}
	if err := json.Unmarshal(content, &answers); err != nil {
		return nil, fmt.Errorf("its pod printed %.200q instead of answers; check that --image %s is clusterset's, of the same version as this program", content, t.Image)
	}
	return answers, nil
}

// wait looks at the clusters until nothing is missing or the time is over, and returns what it saw last.
func (t *Test) wait(ctx context.Context, what string, until time.Time, missing func([]*Facts) []string) (all []*Facts, err error) {
	said := ""
	for {
		if all, err = t.look(ctx); err != nil {
			return nil, err
		}
		left := missing(all)
		if len(left) == 0 || !time.Now().Before(until) {
			return all, nil
		}
		if now := strings.Join(left, ", "); now != said {
			_, _ = fmt.Fprintf(t.Progress, "Waiting for %s: %s\n", what, now)
			said = now
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted while waiting for %s", what)
		case <-time.After(pollEvery):
		}
	}
}

func (t *Test) look(ctx context.Context) ([]*Facts, error) {
	all := make([]*Facts, len(t.Clusters))
	err := inAll(t.Clusters, func(i int, c *Cluster) (err error) { all[i], err = c.look(ctx, t.Namespace); return err })
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return all, err
}

func inAll(clusters []*Cluster, do func(int, *Cluster) error) error {
	errs := make([]error, len(clusters))
	var workers sync.WaitGroup
	for i, c := range clusters {
		workers.Go(func() { errs[i] = do(i, c) })
	}
	workers.Wait()
	return errors.Join(errs...)
}

// cleanUp deletes the namespaces that the test created, with everything in them, and waits until they are gone.
func (t *Test) cleanUp(ctx context.Context) error {
	if t.Keep {
		for _, c := range t.created {
			_, _ = fmt.Fprintf(t.Progress, "Kept: kubectl --context %s delete namespace %s deletes it.\n", c.Context, t.Namespace)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanFor)
	defer cancel()
	return inAll(t.created, func(_ int, c *Cluster) error { return c.cleanUp(ctx, t.Namespace) })
}

func (c *Cluster) cleanUp(ctx context.Context, namespace string) error {
	left := func(err error) error {
		return fmt.Errorf("namespace %s is left in %s: %w; delete it with kubectl --context %s delete namespace %s", namespace, c.Name, err, c.Context, namespace)
	}
	ns := namespaceObject(namespace)
	if err := client.IgnoreNotFound(c.Delete(ctx, ns)); err != nil {
		return left(c.Words(err))
	}
	err := wait.PollUntilContextCancel(ctx, pollEvery, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	switch {
	case wait.Interrupted(err):
		return left(fmt.Errorf("still being deleted after %s", cleanFor))
	case err != nil:
		return left(c.Words(err))
	}
	return nil
}
