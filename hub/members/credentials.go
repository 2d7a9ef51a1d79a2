package members

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/connect"
)

// settle is for how long an API server may still take the tokens of an account that is gone: it remembers for ten seconds that
// they were good. A heartbeat within that is no sign that anybody has the new ones.
const settle = 15 * time.Second

// Values of api.AnnotationCredentials: while the credentials are being made, and once they have been used.
const (
	issuing = "issuing"
	taken   = "taken"
)

// handover is the state of an account's first credentials. They lie in a Secret until the cluster's agent has sent a heartbeat with
// them, and are made anew while nobody fetches them.
type handover struct {
	state string    // the account's api.AnnotationCredentials: empty, issuing, taken, or "<when to replace them> <the heartbeat of before>"
	made  time.Time // the account
	ours  bool      // else join has made the account, and handed its credentials over
	beat  string    // the latest heartbeat, in one word; empty: there has been none
}

type step string

const (
	nothing step = "nothing" // they are in use
	wait    step = "wait"    // they lie there
	issue   step = "issue"   // they are to be made
	done    step = "done"    // they have just been used
)

// next returns what is to be done now, and for wait when to look again at the latest.
func (h handover) next(now time.Time) (step, time.Duration) {
	until, before, issued := strings.Cut(h.state, " ")
	switch {
	case h.state == taken:
		return nothing, 0
	case !h.ours && h.state != "":
		return done, 0
	case !h.ours:
		return nothing, 0
	case issued && h.beat != before:
		return done, 0
	case !issued && h.beat != "" && now.Before(h.made.Add(settle)):
		return wait, h.made.Add(settle).Sub(now)
	}
	replace, err := time.Parse(time.RFC3339, until)
	if err != nil || !now.Before(replace) {
		return issue, 0
	}
	return wait, replace.Sub(now)
}

// handOver sees to the Secret with the first credentials of an account. waits says that it is there.
func (r *reconciler) handOver(ctx context.Context, cluster string, account *corev1.ServiceAccount) (waits bool, again time.Duration, err error) {
	beat, err := r.beat(ctx, r.client, cluster)
	if err != nil {
		return false, 0, err
	}
	h := handover{
		state: account.Annotations[api.AnnotationCredentials], made: account.CreationTimestamp.Time,
		ours: account.Labels[api.LabelManagedBy] == api.ManagedByHub, beat: beat,
	}
	switch step, again := h.next(r.now()); step {
	case issue:
		again, err := r.issue(ctx, cluster, account)
		return true, again, err
	case done:
		if err := r.dropSecret(ctx, cluster); err != nil {
			return false, 0, err
		}
		_, err := r.note(ctx, account, taken)
		return false, 0, err
	case wait:
		return h.state != "", again, nil
	default:
		return false, 0, nil
	}
}

// issue puts a kubeconfig with a new token into the Secret, and returns when to replace it.
func (r *reconciler) issue(ctx context.Context, cluster string, account *corev1.ServiceAccount) (time.Duration, error) {
	// A cache may be behind, and the heartbeat that it doesn't know yet would pass for one with the new credentials.
	beat, err := r.beat(ctx, r.live, cluster)
	if err != nil {
		return 0, err
	}
	// Before the Secret is there: if join takes the account over now, it is known that there is one to take away.
	if account, err = r.note(ctx, account, issuing); err != nil {
		return 0, err
	}
	token, err := connect.RequestToken(ctx, r.client, cluster, r.lifetime)
	if err != nil {
		return 0, err
	}
	kubeconfig, err := connect.Kubeconfig(r.config, r.server, cluster, token)
	if err != nil {
		return 0, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.MemberNamespace(cluster), Name: api.HubSecret,
			Labels: map[string]string{api.LabelManagedBy: api.ManagedByHub, api.LabelCluster: cluster},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{api.HubSecretKey: kubeconfig},
	}
	// It is deleted and made, and never read: no right of ours opens any Secret. In this namespace, which is ours, one of this name is.
	if err := r.dropSecret(ctx, cluster); err != nil {
		return 0, err
	}
	if err := r.client.Create(ctx, secret, client.FieldOwner(api.FieldManagerHub)); err != nil {
		return 0, fmt.Errorf("create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	again := r.lifetime / 2
	if life, ok := connect.Lifetime(token); ok { // the API server may have given less
		again = life / 2
	}
	_, err = r.note(ctx, account, r.now().Add(again).UTC().Format(time.RFC3339)+" "+beat)
	return again, err
}

// note writes the state of the handover on the account, unless somebody has changed that.
func (r *reconciler) note(ctx context.Context, account *corev1.ServiceAccount, state string) (*corev1.ServiceAccount, error) {
	noted := account.DeepCopy()
	metav1.SetMetaDataAnnotation(&noted.ObjectMeta, api.AnnotationCredentials, state)
	patch := client.MergeFromWithOptions(account, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, noted, patch, client.FieldOwner(api.FieldManagerHub)); err != nil {
		return nil, fmt.Errorf("annotate ServiceAccount %s: %w", client.ObjectKeyFromObject(account), err)
	}
	return noted, nil
}

func (r *reconciler) dropSecret(ctx context.Context, cluster string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HubSecret}}
	if err := client.IgnoreNotFound(r.client.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("delete Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// beat returns when the cluster's agent renewed its Lease last, by its own clock; empty where it never has.
func (r *reconciler) beat(ctx context.Context, from client.Reader, cluster string) (string, error) {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}
	switch err := from.Get(ctx, key, &lease); {
	case apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get Lease %s: %w", key, err)
	}
	return lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano), nil
}
