// Package corefile adapts the Corefiles of the chart and of the documentation to a test's machine.
package corefile

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/clusterset/clusterset/test/freeport"
)

// Local is what a Corefile finds on this machine instead of what it has in a pod.
type Local struct {
	Text, DNS, Metrics string // the Corefile, and addresses
	Probe              string // the URL of plugin ready
	Port               string // of DNS
}

var (
	headRE     = regexp.MustCompile(`(?m)^\S[^{\n]*\{$`)
	portRE     = regexp.MustCompile(`:(1053|53)\b`)
	bindRE     = regexp.MustCompile(`(?m)^( *)bind .*$`)
	stanzaRE   = regexp.MustCompile(`(?m)^( *)(clusterset|kubernetes)( [^{\n]*)?\{$`)
	probeRE    = regexp.MustCompile(`(?m)^( *)(ready|health)( :\d+)?( \{)?$`)
	metricsRE  = regexp.MustCompile(`prometheus :\d+`)
	loopRE     = regexp.MustCompile(`(?m)^ *loop\n`)
	upstreamRE = regexp.MustCompile(`(?m)^( *forward \S+) ([^\s{]+)[^{\n]*?( \{)?$`)
)

// Adapt replaces ports, API servers and upstream servers in a Corefile. upstream returns the address of a server that is named there.
func Adapt(text, kubeconfig string, upstream func(server string) string) (*Local, error) {
	ports, err := freeport.Several(4)
	if err != nil {
		return nil, err
	}
	l := &Local{Port: ports[0], DNS: "127.0.0.1:" + ports[0], Probe: "http://127.0.0.1:" + ports[1] + "/ready", Metrics: "127.0.0.1:" + ports[2]}
	probes := map[string]string{"ready": ports[1], "health": ports[3]}
	text = bindRE.ReplaceAllString(text, "${1}bind 127.0.0.1")
	bound := strings.Contains(text, "bind ")
	text = headRE.ReplaceAllStringFunc(text, func(head string) string {
		if head = portRE.ReplaceAllString(head, ":"+l.Port); !bound {
			head += "\n    bind 127.0.0.1"
		}
		return head
	})
	text = probeRE.ReplaceAllStringFunc(text, func(line string) string {
		m := probeRE.FindStringSubmatch(line)
		return m[1] + m[2] + " 127.0.0.1:" + probes[m[2]] + m[4]
	})
	text = metricsRE.ReplaceAllString(text, "prometheus "+l.Metrics)
	text = loopRE.ReplaceAllString(text, "") // it asks its own upstream, which doesn't exist here
	text = Forward(text, upstream)
	if !strings.Contains(text, "manifests ") {
		text = stanzaRE.ReplaceAllString(text, "${0}\n${1}    kubeconfig "+kubeconfig)
	}
	l.Text = text
	return l, nil
}

// Forward replaces the servers to which a Corefile forwards.
func Forward(text string, upstream func(server string) string) string {
	return upstreamRE.ReplaceAllStringFunc(text, func(line string) string {
		m := upstreamRE.FindStringSubmatch(line)
		return m[1] + " " + upstream(m[2]) + m[3]
	})
}

// Nowhere is an upstream that doesn't answer.
func Nowhere(string) string { return "127.0.0.1:9" }

// Ready asks a probe.
func Ready(ctx context.Context, probe string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, probe, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", probe, response.Status)
	}
	return nil
}
