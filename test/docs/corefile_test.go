package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// corefiles returns every Corefile of the repository's documentation, by where it is.
func corefiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"corefile.example", "examples/Corefile*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range paths {
			all[strings.TrimPrefix(path, root+"/")] = read(t, path)
		}
	}
	for _, b := range blocksOf(t, "corefile") {
		all[b.String()] = b.text
	}
	return all
}

// The real binary starts with each Corefile and answers for its zones. The Corefile is adapted to what a test has: it uses the
// test's API server, free ports, and a server of the examples as the upstream.
func TestCorefilesStart(t *testing.T) {
	plane := kube.Start(t)
	plane.Apply(t, append(kube.MCSCRDs(), crds.All()...)...)
	upstream := start(t, read(t, filepath.Join(root, "examples", "Corefile")), plane.Kubeconfig(), "").DNS
	for place, text := range corefiles(t) {
		t.Run(place, func(t *testing.T) {
			expectAnswer(t, start(t, text, plane.Kubeconfig(), upstream).DNS, "clusterset.local SOA", "ANSWER: 1,")
		})
	}
}

// server is a DNS server that runs until the test ends, or ends it.
type server struct {
	*corefile.Local
	*process.Process
	log *process.Output
}

// start starts a server with a Corefile, adapted to this machine.
func start(t *testing.T, text, kubeconfig, upstream string) *server {
	t.Helper()
	local, err := corefile.Adapt(text, kubeconfig, func(string) string { return upstream })
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Local: local}
	s.run(t)
	return s
}

func (s *server) run(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(s.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary(t, "coredns"), "-conf", path, "-dns.port", s.Port)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CLUSTERSET_CLUSTER=xicheng", "CLUSTERSET_ZONE=beijing", "CLUSTERSET_REGION=north")
	s.Process, s.log = process.StartFor(t, cmd, "Corefile:\n"+s.Text+"\nlog:")
}
