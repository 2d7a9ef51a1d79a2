package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/version"
)

func init() { metrics.Registry.MustRegister(version.Metric("clusterset")) }

// process is what member and hub share: they run until they are stopped.
type process struct {
	kubeconfig      string
	metrics, probes string
	elect           bool
	electIn         string
	logFormat       string
	logLevel        slog.Level
}

func (p *process) addFlags(flags *pflag.FlagSet, whose string) {
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig `file` of "+whose+" (default: the pod's own account, else $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&p.metrics, "metrics-bind-address", ":8080", "`address` to serve /metrics on; 0 disables it")
	flags.StringVar(&p.probes, "health-probe-bind-address", ":8081", "`address` to serve /healthz and /readyz on; 0 disables it")
	flags.BoolVar(&p.elect, "leader-elect", false, "let only one of several replicas work; the others wait to take over")
	flags.StringVar(&p.electIn, "leader-elect-namespace", "", "`namespace` of the leader's Lease (default: the pod's own, else "+api.SystemNamespace+")")
	flags.StringVar(&p.logFormat, "log-format", "text", "text or json")
	flags.TextVar(&p.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

// setUpLogs sends our own logs, controller-runtime's and client-go's to w.
func (p *process) setUpLogs(w io.Writer) error {
	options := &slog.HandlerOptions{Level: p.logLevel}
	var handler slog.Handler
	switch p.logFormat {
	case "text":
		handler = slog.NewTextHandler(w, options)
	case "json":
		handler = slog.NewJSONHandler(w, options)
	default:
		return usagef("--log-format is %q; want text or json", p.logFormat)
	}
	log.SetLogger(logr.FromSlogHandler(handler))
	klog.SetSlogLogger(slog.New(handler))
	return nil
}

// newManager returns a manager with probes, metrics and leader election. Its API server is near, and would compress each event of each watch.
func (p *process) newManager(config *rest.Config, lease string, scheme *runtime.Scheme, options cache.Options) (manager.Manager, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	mgr, err := manager.New(config, manager.Options{
		Scheme:                        scheme,
		Cache:                         options,
		Metrics:                       metricsserver.Options{BindAddress: p.metrics},
		HealthProbeBindAddress:        p.probes,
		LeaderElection:                p.elect,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       p.leaseNamespace(),
		LeaderElectionReleaseOnCancel: true, // the process exits right after
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	// Both only mean that the process runs. A hub that is down is no reason to restart an agent or to block its rollout;
	// metrics report it.
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", func(*http.Request) error { return nil })); err != nil {
		return nil, fmt.Errorf("set up probes: %w", err)
	}
	return mgr, p.sign(mgr, lease)
}

// everywhere is a Runnable for every replica, leader or not.
type everywhere func(context.Context) error

func (f everywhere) Start(ctx context.Context) error { return f(ctx) }
func (everywhere) NeedLeaderElection() bool          { return false }

// restConfig loads a kubeconfig: the file and context given, or the one that kubectl or a pod would use.
func restConfig(file, contextName string) (*rest.Config, error) {
	config, err := deferred(file, contextName).ClientConfig()
	if err != nil {
		return nil, usagef("load kubeconfig: %w", err)
	}
	// The API server's priority and fairness limits requests; with client-go's default of 5 per second, a restart of a large
	// member would take minutes.
	config.QPS = -1
	config.UserAgent = "clusterset/" + version.String()
	return config, nil
}

func (p *process) leaseNamespace() string {
	return cmp.Or(p.electIn, ownNamespace(), api.SystemNamespace)
}

// ownNamespace returns the pod's namespace, or "" outside a pod.
func ownNamespace() string {
	content, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// signEvery is how often a process that isn't elected renews its Lease, and signFor for how long that Lease, like a leader's, is good.
const signEvery, signFor = 5 * time.Second, 15 * time.Second

// sign lets others know that the process runs where no leader is elected: it renews the Lease that a leader would have. Unlike an election it
// needs no API server for the process to go on, and no time to take over.
func (p *process) sign(mgr manager.Manager, lease string) error {
	c, err := connect.NewClient(mgr.GetConfig()) // the manager's cache has other Leases
	if err != nil || p.elect {
		return err
	}
	key, said := client.ObjectKey{Namespace: p.leaseNamespace(), Name: lease}, ""
	return mgr.Add(everywhere(func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := renewSign(ctx, c, key, time.Now()); err != nil && err.Error() != said {
				said = err.Error()
				log.Log.Error(err, "Can't renew the Lease by which clusterset status knows that this process runs", "lease", key)
			}
		}, signEvery)
		return nil
	}))
}

// renewSign renews the Lease without becoming its holder, so that whoever is elected has it at once. While somebody holds it, that is sign enough.
func renewSign(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, c, lease, func() error {
		if s := &lease.Spec; ptr.Deref(s.HolderIdentity, "") == "" || s.RenewTime == nil || now.Sub(s.RenewTime.Time) > signFor {
			*s = coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(signFor.Seconds())), RenewTime: new(metav1.NewMicroTime(now))}
		}
		return nil
	})
	if apierrors.IsNotFound(err) { // a bare hub doesn't have the namespace
		err = client.IgnoreAlreadyExists(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}))
	}
	return err
}
