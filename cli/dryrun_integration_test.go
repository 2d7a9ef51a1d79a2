package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/dryrun"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// token is a JSON Web Token, as an API server issues them.
var token = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// A dry run of each command that writes says what it would change, and changes nothing in either cluster.
func TestDryRunsChangeNothing(t *testing.T) {
	planes := kube.StartAll(t, nil, nil)
	s := lookedAt{hub: planes[0], member: planes[1]}
	hub := []string{"--hub-kubeconfig", s.hub.Kubeconfig()}
	both := append(slices.Clone(hub), "--kubeconfig", s.member.Kubeconfig())
	var all strings.Builder
	rehearse := func(code int, clusters []string, args ...string) {
		t.Helper()
		before := []map[string]string{stored(t, s.hub), stored(t, s.member)}
		got, stdout, stderr := cli(t, slices.Concat(args, []string{"--dry-run"}, clusters)...)
		if got != code {
			t.Errorf("%q: exit code %d, want %d", args, got, code)
		}
		for i, plane := range planes {
			after := stored(t, plane)
			for name := range before[i] {
				after[name] += "" // one that is deleted is there, without a version
			}
			for name := range after {
				if before[i][name] != after[name] {
					t.Errorf("%q wrote or deleted %s of server %d", args, name, i)
				}
			}
		}
		// A dry run of a TokenRequest returns a token that is valid.
		if found := token.FindString(stdout + stderr); found != "" {
			t.Errorf("%q printed a token: %.12s…", args, found)
		}
		all.WriteString("$ clusterset " + strings.Join(args, " ") + " --dry-run\n" + stdout + stderr + "\n")
	}
	do := func(args ...string) {
		t.Helper()
		if code, stdout, stderr := cli(t, args...); code != 0 {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}

	// Nothing is there yet, not even the kinds.
	rehearse(0, both, "join", "beijing", "--region", "cn-north-1", "--install-crds")
	rehearse(exitFailure, both, "join", "beijing")
	for _, reads := range []string{"status", "services"} {
		want := "the cluster at " + s.member.URL() + " doesn't have the kinds that a member has: it isn't one; check "
		if code, _, stderr := cli(t, reads, "--kubeconfig", s.member.Kubeconfig()); code != exitFailure || !strings.Contains(stderr, want) || !strings.Contains(stderr, "clusterset join") {
			t.Errorf("%s of a cluster without the kinds: exit code %d, %q", reads, code, stderr)
		}
	}
	do(append(both, "join", "beijing", "--region", "cn-north-1", "--install-crds")...)
	do(append(hub, "join", "shanghai")...)
	s.member.Apply(t, manifest(t, "imported"))

	rehearse(0, hub, "join", "lyon")
	rehearse(exitFailure, hub, "join", "beijing")
	rehearse(0, hub, "join", "beijing", "--rejoin") // prints a kubeconfig, were it not for --dry-run
	rehearse(0, both, "join", "beijing", "--region", "cn-north-2", "--rejoin", "--revoke")

	// That token is dropped before anything could print it.
	c, err := connect.NewClient(s.hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := connect.RequestToken(t.Context(), client.NewDryRunClient(c), "beijing", time.Hour)
	if err != nil || !token.MatchString(issued) {
		t.Errorf("a dry run of a TokenRequest returned %.12q, %v; want a token", issued, err)
	}
	recorder, _ := dryrun.New(c, "")
	if kept, err := connect.RequestToken(t.Context(), recorder, "beijing", time.Hour); err != nil || kept != "" {
		t.Errorf("a rehearsed TokenRequest keeps %.12q, %v", kept, err)
	}

	rehearse(0, hub, "undrain", "beijing")
	rehearse(0, hub, "drain", "beijing")
	do(append(hub, "drain", "beijing")...)
	rehearse(0, hub, "undrain", "beijing")
	rehearse(0, both, "leave", "beijing")

	// What the API server would refuse is said.
	reader, err := s.hub.KubeconfigFor("reader")
	if err != nil {
		t.Fatal(err)
	}
	s.hub.Apply(t, manifest(t, "reader"))
	rehearse(exitFailure, []string{"--hub-kubeconfig", reader}, "undrain", "beijing")
	rehearse(exitFailure, []string{"--hub-kubeconfig", reader}, "join", "lyon")
	s.same(t, "dry-run.txt", all.String())
}

// stored returns the resource version of every object of a cluster, without what the API server writes of its own accord.
func stored(t *testing.T, plane *kube.ControlPlane) map[string]string {
	t.Helper()
	own := []string{"leases", "apiservices", "events", "flowschemas", "prioritylevelconfigurations", "servicecidrs", "ipaddresses"}
	// The API server creates these namespaces, and what they have, only after it says that it is ready.
	itsOwn := func(namespace string) bool { return namespace == "default" || strings.HasPrefix(namespace, "kube-") }
	all := map[string]string{}
	for name, o := range everything(t, plane) {
		resource, _, _ := strings.Cut(name, " ")
		if !slices.Contains(own, resource) && !itsOwn(o.GetNamespace()) && (resource != "namespaces" || !itsOwn(o.GetName())) {
			all[name] = o.GetResourceVersion()
		}
	}
	return all
}
