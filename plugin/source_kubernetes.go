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
	// absentPoll is how often a missing CustomResourceDefinition is checked for.
	absentPoll = 10 * time.Second
	// retryMin and retryMax are the pauses after the first failure and after many.
	retryMin, retryMax = 200 * time.Millisecond, 30 * time.Second
)

// absentPolls is how many answers in a row must lack a kind before its objects count as deleted. An API server that has just started, or
// that changes to another version, may miss a kind for a moment.
const absentPolls = 3

// kubernetesFeed watches the API server for every kind. The kinds are independent. One whose CustomResourceDefinition isn't
// installed counts as read, and is checked for again later. One that is forbidden or fails delays the first sync, because
// without it the server can't know which names don't exist; after that it affects no other kind.
type kubernetesFeed struct {
	config *rest.Config
	client *http.Client
	// self gets the addresses of the Services in front of this pod. It may be empty.
	self []selfGlue
	// recognised is called when uid has been found. It may be nil.
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

// run watches one kind: it finds the version that is served, watches it, and starts again when that version is gone.
func (k *watchedKind) run(ctx context.Context, s *source, config *rest.Config, client *http.Client) {
	held := &store{kind: k, source: s}
	defer held.age.stop()
	delay := newDelay()
	absent := 0 // answers in a row
	for ctx.Err() == nil {
		version, err := k.served(ctx, config, client)
		if err != nil || version != "" {
			absent = 0
		}
		switch {
		case err != nil:
			s.reachable(k.kind, false)
			s.failed(k.kind, fmt.Errorf("ask for the versions served: %w", err))
			pause(ctx, delay())
		case version == "":
			absentGauge.WithLabelValues(s.label, k.kind.String()).Set(1)
			absent++
			earlier := absent <= absentPolls && s.has(k.kind)
			if earlier && absent == absentPolls {
				log.Warningf("%s: %s: the API server has said %d times that it doesn't know this kind: its objects are gone", s.label, k.kind, absent)
				s.replace(k.kind, nil) // no watch showed their end
				earlier = false
			}
			s.reachable(k.kind, true)
			if !earlier {
				s.read(k.kind)
			}
			pause(ctx, absentPoll)
		default:
			absentGauge.WithLabelValues(s.label, k.kind.String()).Set(0)
			began := time.Now()
			k.watch(ctx, held, config, client, version)
			if time.Since(began) > retryMax {
				delay = newDelay()
			}
			pause(ctx, delay())
		}
	}
}

// served returns the first of the kind's versions that the API server serves, or "" if it serves none.
func (k *watchedKind) served(ctx context.Context, config *rest.Config, client *http.Client) (string, error) {
	rc, err := k.client(config, client, k.versions[0])
	if err != nil {
		return "", err
	}
	get := func(into runtime.Object, path ...string) error {
		return rc.Get().AbsPath(path...).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Into(into)
	}
	for _, version := range k.versions {
		var list metav1.APIResourceList
		err := get(&list, "/apis", k.group, version)
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
	// Only an API server knows what it doesn't serve. A load balancer without one may say 404 to everything.
	return "", get(&metav1.APIGroupList{}, "/apis")
}

// watch follows one version of the kind until the API server no longer serves it. It retries every other failure, and keeps
// what was read last.
func (k *watchedKind) watch(ctx context.Context, held *store, config *rest.Config, client *http.Client, version string) {
	s := held.source
	rc, err := k.client(config, client, version)
	if err != nil {
		s.failed(k.kind, err)
		return
	}
	quiet := logr.Discard() // failures are reported by s.failed
	ctx = logr.NewContext(ctx, quiet)
	lw := &listWatch{kind: k, client: rc, source: s}
	reflector := cache.NewReflectorWithOptions(
		&cache.ListWatch{ListWithContextFunc: lw.list, WatchFuncWithContext: lw.watch}, k.object,
		held,
		cache.ReflectorOptions{Name: pluginName, Logger: &quiet, Backoff: newBackoff()},
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
		if k.optional {
			s.read(k.kind)
		}
		lw.failed = false
		if time.Since(began) > retryMax {
			delay = newDelay()
		}
		pause(ctx, delay())
	}
}

// explain adds the cure to errors that an operator can fix.
func (k *watchedKind) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (grant get, list and watch on %s.%s to CoreDNS's ServiceAccount)", err, k.resource, k.group)
	}
	return err
}

// listWatch lists and watches one kind, and tells the source whether that works: the Reflector retries a refused watch
// silently.
type listWatch struct {
	kind   *watchedKind
	client rest.Interface
	source *source
	// failed is set if the last request failed and the failure was reported. After a failed watch the Reflector lists, which
	// fails for the same reason and must not be reported twice.
	failed bool
	// delay returns the next pause after a list by watch that was refused as expired. nil: none was.
	delay func() time.Duration
}

func (l *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := l.kind.newList()
	err := l.request(&options).Do(ctx).Into(list)
	if err == nil {
		l.failed = false
	}
	return list, err
}

func (l *listWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	w, err := l.request(&options).Watch(ctx)
	switch {
	case err == nil:
		l.failed, l.delay = false, nil
		l.source.reachable(l.kind.kind, true)
	case ctx.Err() != nil:
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		l.source.reachable(l.kind.kind, false)
		if options.SendInitialEvents != nil {
			l.refused(ctx, err)
		}
	default:
		l.source.reachable(l.kind.kind, false)
		if !apierrors.IsNotFound(err) {
			l.report(err)
		}
	}
	return w, err
}

// refused waits after a list by watch that was refused as expired. An API server has no reason for that, since such a watch begins
// with what there is; but something in front of one may give this answer to all, and the Reflector repeats the watch without a pause.
func (l *listWatch) refused(ctx context.Context, err error) {
	l.report(err)
	if l.delay == nil {
		l.delay = newDelay()
	}
	pause(ctx, l.delay())
}

func (l *listWatch) report(err error) {
	l.source.failed(l.kind.kind, l.kind.explain(err))
	l.failed = true
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
func newDelay() func() time.Duration { return newBackoff().Step }

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: retryMin, Cap: retryMax, Steps: 10, Factor: 2, Jitter: 0.5}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
