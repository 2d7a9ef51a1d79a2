package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/page"
)

// lookedAt is a hub and a member on real API servers, with everything that the interactive commands look at. No agent runs. The test writes
// what agents would write, so that it doesn't change.
type lookedAt struct {
	hub, member *kube.ControlPlane
}

// manifest reads one of testdata/manifests, in which words may stand for what only the test knows.
func manifest(t *testing.T, name string, words ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "manifests", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(strings.NewReplacer(words...).Replace(string(content)))
}

// startLookedAt makes the cluster set with the commands that users would run.
func startLookedAt(t *testing.T) lookedAt {
	planes := kube.StartAll(t, nil, nil)
	s := lookedAt{hub: planes[0], member: planes[1]}
	for _, args := range [][]string{
		{"beijing", "--zone", "cn-north-1a", "--region", "cn-north-1", "--kubeconfig", s.member.Kubeconfig()},
		{"shanghai", "--zone", "cn-east-1b", "--region", "cn-east-1"},
	} {
		if code, _, stderr := cli(t, append([]string{"join", "--install-crds", "--hub-kubeconfig", s.hub.Kubeconfig()}, args...)...); code != 0 {
			t.Fatalf("join: exit code %d, %s", code, stderr)
		}
	}
	s.hub.Apply(t, manifest(t, "set-hub"))
	s.member.Apply(t, manifest(t, "set-member"))
	s.member.ApplyStatus(t, manifest(t, "set-member-status"))
	s.mirror(t)
	return s
}

// mirror does the work of the hub process and of the member's importer: it marks all clusters Ready and copies them.
func (s lookedAt) mirror(t *testing.T) {
	t.Helper()
	hub, member := s.open(t, s.hub), s.open(t, s.member)
	members, err := hub.MemberClusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range members {
		mc := &members[i]
		mc.Annotations = map[string]string{api.AnnotationJoined: "2020-01-01T00:00:00Z"} // before anything was exported
		if err := hub.Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		n := int32(1)
		mc.Status = clustersetv1alpha1.MemberClusterStatus{
			Phase: clustersetv1alpha1.MemberReady, AgentVersion: "v1.0.0", ExportedServices: &n,
		}
		if err := hub.Status().Update(t.Context(), mc); err != nil {
			t.Fatal(err)
		}
		mirrored := &clustersetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: mc.Name, Labels: map[string]string{api.LabelManagedBy: api.ManagedByImporter}}, Spec: mc.Spec,
		}
		if err := member.Create(t.Context(), mirrored); err != nil {
			t.Fatal(err)
		}
		mirrored.Status = mc.Status
		if mc.Name == "beijing" {
			mirrored.Status.Conditions = []metav1.Condition{{
				Type: clustersetv1alpha1.ConditionHubAnswers, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonHubAnswers,
				LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute)),
			}}
		}
		if err := member.Status().Update(t.Context(), mirrored); err != nil {
			t.Fatal(err)
		}
	}
}

func (s lookedAt) open(t *testing.T, c *kube.ControlPlane) *objects.Cluster {
	t.Helper()
	opened, err := objects.Open(c.Config(), "cluster", "")
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// agentKubeconfig returns the path of the kubeconfig that join made for beijing's agent.
func (s lookedAt) agentKubeconfig(t *testing.T) string {
	t.Helper()
	c, err := connect.NewClient(s.member.Config())
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	secret.Namespace, secret.Name = api.SystemNamespace, api.HubSecret
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(&secret), &secret); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hub")
	if err := os.WriteFile(path, secret.Data[api.HubSecretKey], 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var volatile = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\(\d+ms\)`), "(Nms)"},
	{regexp.MustCompile(`"latencyMillis": \d+`), `"latencyMillis": N`},
	{regexp.MustCompile(`\b\d+m?\d*s\b`), "Ns"},
	{regexp.MustCompile(`v1\.\d+\.\d+\S*\)`), "VERSION)"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(` +`), " "}, // the width of columns depends on the ages
}

// same compares output with a golden file, after replacing what differs from run to run.
func (s lookedAt) same(t *testing.T, file, got string) {
	t.Helper()
	got = strings.NewReplacer(s.hub.URL(), "https://HUB", s.member.URL(), "https://MEMBER").Replace(got)
	for _, v := range volatile {
		got = v.what.ReplaceAllString(got, v.as)
	}
	page.Fresh(t, filepath.Join("testdata", file), got)
}

// fails checks that a command ends with the exit code and prints one line on stderr that contains the text.
func fails(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	got, stdout, stderr := cli(t, args...)
	if got != code || !strings.Contains(stderr, says) {
		t.Errorf("clusterset %s: exit code %d, want %d with %q:\n%s%s", strings.Join(args, " "), got, code, says, stdout, stderr)
	}
	if strings.Count(stderr, "\n") != 1 {
		t.Errorf("clusterset %s: the error isn't one line: %q", strings.Join(args, " "), stderr)
	}
}
