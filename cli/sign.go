package cli

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset/clusterset/internal/connect"
)

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
