package docs

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
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
// test's API server, free ports instead of port 53 and the probes' ports, and a server of the examples as the upstream.
func TestCorefilesStart(t *testing.T) {
	binary := binary(t, "coredns")
	plane := kube.Start(t)
	plane.Apply(t, append(kube.MCSCRDs(), crds.All()...)...)
	upstreamPort := freeport.For(t)
	upstream := start(t, binary, read(t, filepath.Join(root, "examples", "Corefile")), upstreamPort)
	for place, text := range corefiles(t) {
		t.Run(place, func(t *testing.T) {
			text, port := localised(t, text, plane.Kubeconfig(), upstream)
			addr := start(t, binary, text, port)
			kube.Eventually(t, func() error { return answers(addr, "clusterset.local.") })
		})
	}
}

var (
	stanzaRE   = regexp.MustCompile(`(?m)^( *)(clusterset|kubernetes)( [^{\n]*)?\{$`)
	portRE     = regexp.MustCompile(`:(1053|53)\b`)
	resolverRE = regexp.MustCompile(`forward \. \S+`)
	bindRE     = regexp.MustCompile(`(?m)^( *)bind .*$`)
	serverRE   = regexp.MustCompile(`(?m)^\S[^{\n]*\{$`)
)

// localised adapts a Corefile to this machine, and returns it with the port on which it serves.
func localised(t *testing.T, text, kubeconfig, upstream string) (string, string) {
	t.Helper()
	port := freeport.For(t)
	text = portRE.ReplaceAllString(text, ":"+port)
	text = resolverRE.ReplaceAllString(text, "forward . "+upstream)
	text = strings.ReplaceAll(text, "prometheus :9153", "prometheus 127.0.0.1:"+freeport.For(t))
	for _, probe := range []string{"ready", "health"} {
		text = regexp.MustCompile(`(?m)^( *`+probe+`)( :\d+)?( \{)?$`).ReplaceAllString(text, "${1} 127.0.0.1:"+freeport.For(t)+"${3}")
	}
	text = strings.ReplaceAll(text, "    loop\n", "") // loop queries its own upstream, which doesn't exist here
	if !strings.Contains(text, "manifests ") {
		text = stanzaRE.ReplaceAllString(text, "${0}\n${1}    kubeconfig "+kubeconfig)
	}
	text = bindRE.ReplaceAllString(text, "${1}bind 127.0.0.1")
	if !strings.Contains(text, "bind ") {
		text = serverRE.ReplaceAllString(text, "${0}\n    bind 127.0.0.1")
	}
	return text, port
}

// start runs the binary with a Corefile until the test ends.
func start(t *testing.T, binary, corefile, port string) string {
	t.Helper()
	startStoppable(t, binary, corefile, port)
	return net.JoinHostPort("127.0.0.1", port)
}

// answers returns nil once the server answers the SOA query of the zone.
func answers(addr, zone string) error {
	r, err := dns.Exchange(new(dns.Msg).SetQuestion(zone, dns.TypeSOA), addr)
	if err != nil {
		return err
	}
	if r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1 {
		return fmt.Errorf("SOA %s: %v", zone, r)
	}
	return nil
}
