package view

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
)

// byName is the index of Leases that an API server has.
func byName() (o client.Object, field string, extract client.IndexerFunc) {
	return &coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }
}

// What the agent of the cluster here shows by its Lease, its pod and its Secret, its problem says (C82 of docs/spec/control-plane.md).
func TestTheAgentHereIsKnownByItsLease(t *testing.T) {
	lease := func(namespace string, age time.Duration, seconds int32) client.Object {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.MemberLeaderLease}}
		l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = ptr.To(metav1.NewMicroTime(time.Now().Add(-age))), ptr.To(seconds)
		return l
	}
	copied := func(change ...func(*clustersetv1alpha1.MemberCluster)) client.Object {
		m := member("beijing", "", clustersetv1alpha1.MemberReady, nil, change...)
		m.Labels = desired.Labels()
		return &m
	}
	left := func(m *clustersetv1alpha1.MemberCluster) {
		m.SetLeft(now)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: api.HubSecret, Labels: map[string]string{api.LabelCluster: "beijing"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: api.SystemNamespace, Name: "agent", Labels: map[string]string{labelPart: PartMember}}}
	pod.Spec.Containers = []corev1.Container{{Command: []string{"/clusterset", "member"}, Args: []string{"--hub-secret=" + api.SystemNamespace + "/" + api.HubSecret}}}
	for name, c := range map[string]struct {
		objects []client.Object
		refused string // the list or object that the account may not read
		want    string // the reasons and beginnings of messages, which leave out the seconds that the test itself may take
	}{
		"it runs":                         {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, 5*time.Second, 15)}, "", ""},
		"it is stopped":                   {[]client.Object{copied(), secret, lease(api.SystemNamespace, time.Minute, 15)}, "", "AgentStopped: the agent of this cluster has not renewed its Lease clusterset-system/clusterset-member-leader for 1m"},
		"it has stopped in good order":    {[]client.Object{copied(), secret, lease(api.SystemNamespace, 12*time.Second, 1)}, "", "AgentStopped: the agent of this cluster has not renewed its Lease clusterset-system/clusterset-member-leader for 1"},
		"the next is about to take over":  {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, 3*time.Second, 1)}, "", ""},
		"it was elsewhere before":         {[]client.Object{copied(), pod, secret, lease("old", time.Hour, 15), lease(api.SystemNamespace, time.Second, 15)}, "", ""},
		"its Leases may not be read":      {[]client.Object{copied(), pod, secret, lease(api.SystemNamespace, time.Minute, 15)}, "leases", ""},
		"a program without a Lease":       {[]client.Object{copied(), secret}, "", ""},
		"its cluster has left":            {[]client.Object{copied(left), secret, lease(api.SystemNamespace, time.Hour, 1)}, "", "Left: this cluster has left"},
		"its cluster has been cleaned up": {[]client.Object{lease(api.SystemNamespace, time.Hour, 1)}, "", "NotAMember: it is in no cluster set"},
		"it waits":                        {[]client.Object{pod}, "", "NoCredentials: there is no Secret clusterset-system/clusterset-hub-credentials with its agent's credentials for the hub: one that starts waits for it"},
		"few may see that it waits":       {[]client.Object{pod}, "secrets", "NotAMember: it is in no cluster set"},
		"its Secret is gone":              {[]client.Object{copied(), pod, lease(api.SystemNamespace, time.Second, 15)}, "", "NoCredentials: there is no Secret clusterset-system/clusterset-hub-credentials"},
	} {
		forbidden := func(resource string) error {
			if resource != c.refused {
				return nil
			}
			return apierrors.NewForbidden(corev1.Resource(resource), "", nil)
		}
		b := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(c.objects...).WithIndex(byName()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if _, of := list.(*coordinationv1.LeaseList); of && forbidden("leases") != nil {
					return forbidden("leases")
				}
				return w.List(ctx, list, o...)
			},
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if o.GetObjectKind().GroupVersionKind().Kind == "Secret" && forbidden("secrets") != nil {
					return forbidden("secrets")
				}
				return w.Get(ctx, key, o, options...)
			},
		})
		f, err := Fetch(t.Context(), &objects.Cluster{What: "cluster", Client: b.Build()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		problems := Build(f).Problems
		switch {
		case c.want == "" && len(problems) > 0 || len(problems) > 1:
			t.Errorf("%s: %+v, want %q", name, problems, c.want)
		case c.want != "" && (len(problems) == 0 || !strings.HasPrefix(problems[0].Reason+": "+problems[0].Message, c.want)):
			t.Errorf("%s: %+v, want %q", name, problems, c.want)
		}
	}
}
