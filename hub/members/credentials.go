package members

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/connect"
)

// settle is the time for which an API server may still accept the tokens of a deleted account: it caches for ten seconds that they are
// valid. A heartbeat within that time doesn't show that the agent has the new ones.
const settle = 15 * time.Second

// Values of api.AnnotationCredentials: while the credentials are being created, and after they were used.
const (
	issuing = "issuing"
	used    = "used"
)

// handover is the state of an account's first credentials. They stay in a Secret until the cluster's agent has sent a heartbeat with
// them, and are replaced as long as it hasn't.
type handover struct {
	state string    // the account's api.AnnotationCredentials: empty, issuing, used, or "<when to replace them> <the heartbeat before that>"
	made  time.Time // when the account was created
	ours  bool      // false: join created the account and handed over its credentials
	beat  string    // the time of the latest heartbeat; empty: there was none
}

type step string

const (
	nothing step = "nothing" // but to wait, if the credentials aren't used yet
	issue   step = "issue"   // create credentials
	finish  step = "finish"  // the credentials have just been used
)

// next returns the next step, and after how long to look again at the latest.
func (h handover) next(now time.Time) (step, time.Duration) {
	at, before, issued := strings.Cut(h.state, " ")
	replace, err := time.Parse(time.RFC3339, at)
	switch {
	case h.state == used:
		return nothing, 0
	case !h.ours || issued && h.beat != before:
		return finish, 0
	case !issued && h.beat != "":
		replace, err = h.made.Add(settle), nil
	}
	if err == nil && now.Before(replace) {
		return nothing, replace.Sub(now)
	}
	return issue, 0
}

// handOver creates, replaces or deletes the Secret with the first credentials of an account. waits says that the Secret exists.
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
	case finish:
		if err := r.dropSecret(ctx, cluster); err != nil {
			return false, 0, err
		}
		_, err := r.annotate(ctx, account, used)
		return false, 0, err
	default:
		return h.state != "" && h.state != used, again, nil
	}
}

// issue writes a kubeconfig with a new token to the Secret, and returns when to replace it.
func (r *reconciler) issue(ctx context.Context, cluster string, account *corev1.ServiceAccount) (time.Duration, error) {
	// Read from the API server: a heartbeat that the cache doesn't have yet would count as one with the new credentials.
	beat, err := r.beat(ctx, r.live, cluster)
	if err != nil {
		return 0, err
	}
	// Annotated first, which fails if the cache is behind, so that no second Secret replaces one that somebody is reading.
	if account, err = r.annotate(ctx, account, issuing); err != nil {
		return 0, err
	}
	token, err := connect.RequestToken(ctx, r.client, cluster, access.DefaultTokenLifetime)
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
	// Delete and create the Secret, and never read it: the process has no right to read any Secret. The name is ours in this
	// namespace.
	if err := r.dropSecret(ctx, cluster); err != nil {
		return 0, err
	}
	if err := r.client.Create(ctx, secret); err != nil {
		return 0, fmt.Errorf("create Secret %s: %w", access.NameOf(secret), err)
	}
	again := access.DefaultTokenLifetime / 2
	if life, ok := connect.Lifetime(token); ok { // the API server may have shortened it
		again = life / 2
	}
	_, err = r.annotate(ctx, account, r.now().Add(again).UTC().Format(time.RFC3339)+" "+beat)
	return again, err
}

// annotate writes the state of the handover to the account. It fails if the account has changed.
func (r *reconciler) annotate(ctx context.Context, account *corev1.ServiceAccount, state string) (*corev1.ServiceAccount, error) {
	annotated := account.DeepCopy()
	metav1.SetMetaDataAnnotation(&annotated.ObjectMeta, api.AnnotationCredentials, state)
	patch := client.MergeFromWithOptions(account, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, annotated, patch); err != nil {
		return nil, fmt.Errorf("annotate ServiceAccount %s: %w", access.NameOf(account), err)
	}
	return annotated, nil
}

func (r *reconciler) dropSecret(ctx context.Context, cluster string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HubSecret}}
	if err := client.IgnoreNotFound(r.client.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("delete Secret %s: %w", access.NameOf(secret), err)
	}
	return nil
}

// beat returns when the cluster's agent last renewed its Lease, by its own clock. It is empty if there was no heartbeat.
func (r *reconciler) beat(ctx context.Context, from client.Reader, cluster string) (string, error) {
	lease, err := access.Heartbeat(ctx, from, cluster)
	if err != nil || lease == nil || lease.Spec.RenewTime == nil {
		return "", err
	}
	return lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano), nil
}
