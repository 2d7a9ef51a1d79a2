package clusterset

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Variables, for tests.
var (
	// absentPoll is how long a CustomResourceDefinition may be installed before we notice.
	absentPoll = 10 * time.Second
	// retryMin and retryMax are the pauses after a first and after many failures.
	retryMin, retryMax = 200 * time.Millisecond, 30 * time.Second
)

// kubernetesFeed watches the API server for every kind. The kinds are independent: one whose CustomResourceDefinition isn't
// installed counts as read, and is looked for again; one that is forbidden or fails holds up only the first sync, because
// without it we could not tell what doesn't exist.
type kubernetesFeed struct {
	config *rest.Config
	client *http.Client
	// self, where set, learns the addresses of the Service in front of this pod.
	self []selfGlue
	// recognised, where set, is called when uid has been found.
	recognised func()
	uid        atomic.Pointer[string]
}

func (*kubernetesFeed) name() string { return sourceKubernetes }

func (f *kubernetesFeed) run(ctx context.Context, s *source) {
	var wg sync.WaitGroup
	for _, k := range watchedKinds {
		wg.Go(func() { k.run(ctx, s, f.config, f.client) })
	}
	if len(f.self) > 0 {
		wg.Go(func() { f.findSelf(ctx) })
	}
	if f.recognised != nil {
		wg.Go(func() { f.findUID(ctx) })
	}
	wg.Wait()
	f.client.CloseIdleConnections()
}

// run watches one kind: finds the version that is served, watches it, and starts again when it is no longer there.
func (k *watchedKind) run(ctx context.Context, s *source, config *rest.Config, client *http.Client) {
	delay := newDelay()
	for ctx.Err() == nil {
		version, err := k.served(ctx, config, client)
		switch {
		case err != nil:
			s.reachable(k.kind, false)
			s.failed(k.kind, fmt.Errorf("ask for the versions served: %w", err))
			pause(ctx, delay())
		case version == "":
			absentGauge.WithLabelValues(s.label, k.kind.String()).Set(1)
			s.reachable(k.kind, true)
			s.read(k.kind)
			pause(ctx, absentPoll)
		default:
			absentGauge.WithLabelValues(s.label, k.kind.String()).Set(0)
			k.watch(ctx, s, config, client, version)
			pause(ctx, delay())
		}
	}
}

// served returns the first of the kind's versions that the API server has, or "" where it has none.
func (k *watchedKind) served(ctx context.Context, config *rest.Config, client *http.Client) (string, error) {
	for _, version := range k.versions {
		rc, err := k.client(config, client, version)
		if err != nil {
			return "", err
		}
		var list metav1.APIResourceList
		err = rc.Get().AbsPath("/apis", k.group, version).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Into(&list)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		for i := range list.APIResources {
			if list.APIResources[i].Name == k.resource {
				return version, nil
			}
		}
	}
	return "", nil
}

// watch follows one version of the kind until the API server no longer has it. Every other failure is retried here, with
// what was read last kept.
func (k *watchedKind) watch(ctx context.Context, s *source, config *rest.Config, client *http.Client, version string) {
	rc, err := k.client(config, client, version)
	if err != nil {
		s.failed(k.kind, err)
		return
	}
	quiet := logr.Discard() // what goes wrong reaches s.failed
	ctx = logr.NewContext(ctx, quiet)
	lw := &listWatch{kind: k, client: rc, source: s}
	reflector := cache.NewReflectorWithOptions(
		lw, k.object,
		&store{kind: k, source: s},
		cache.ReflectorOptions{Name: pluginName, Logger: &quiet, Backoff: &wait.Backoff{
			Duration: retryMin, Cap: retryMax, Steps: 8, Factor: 2, Jitter: 0.5,
		}},
	)
	delay := newDelay()
	for ctx.Err() == nil {
		began := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if ctx.Err() != nil {
			return
		}
		s.reachable(k.kind, false)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil && !lw.failed {
			s.failed(k.kind, k.explain(err))
		}
		lw.failed = false
		if time.Since(began) > retryMax {
			delay = newDelay()
		}
		pause(ctx, delay())
	}
}

// explain adds what to do to errors that an operator can mend.
func (k *watchedKind) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (grant get, list and watch on %s.%s to CoreDNS's ServiceAccount)", err, k.resource, k.group)
	}
	return err
}

// listWatch lists and watches one kind, and tells the source whether that works: the Reflector retries a refused watch
// without a word.
type listWatch struct {
	kind   *watchedKind
	client rest.Interface
	source *source
	// failed is set while the last request failed and that was said: the Reflector follows a watch that fails by a list, which
	// fails for the same reason.
	failed bool
}

// ListWithContext implements cache.ListerWithContext.
func (l *listWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := l.kind.newList()
	err := l.request(&options).Do(ctx).Into(list)
	if err == nil {
		l.failed = false
	}
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (l *listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	w, err := l.request(&options).Watch(ctx)
	if err != nil && ctx.Err() == nil {
		l.source.reachable(l.kind.kind, false)
		if !apierrors.IsNotFound(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			l.source.failed(l.kind.kind, l.kind.explain(err))
			l.failed = true
		}
	}
	if err == nil {
		l.failed = false
		l.source.reachable(l.kind.kind, true)
	}
	return w, err
}

// List implements cache.Lister, which the Reflector's constructor still asks for.
func (l *listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// Watch implements cache.Watcher.
func (l *listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

func (l *listWatch) request(options *metav1.ListOptions) *rest.Request {
	options.LabelSelector = l.kind.selector
	r := l.client.Get().Resource(l.kind.resource).VersionedParams(options, metav1.ParameterCodec)
	if options.TimeoutSeconds != nil {
		r = r.Timeout(time.Duration(*options.TimeoutSeconds) * time.Second)
	}
	return r
}

// newDelay returns pauses that grow from retryMin to retryMax.
func newDelay() func() time.Duration {
	b := wait.Backoff{Duration: retryMin, Cap: retryMax, Steps: 10, Factor: 2, Jitter: 0.5}
	return b.Step
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
