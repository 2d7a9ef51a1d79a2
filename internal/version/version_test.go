package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfABuild(t *testing.T) {
	for _, c := range []struct {
		name, want string
		info       debug.BuildInfo
	}{
		{"go install of a command", "v1.2.3", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}},
		{"a work tree", "(devel)", debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}},
		{"the plugin in another CoreDNS", "v1.2.3", debug.BuildInfo{
			Main: debug.Module{Path: "github.com/coredns/coredns", Version: "v1.15.0"},
			Deps: []*debug.Module{{Path: "github.com/miekg/dns", Version: "v1.1.73"}, {Path: module, Version: "v1.2.3"}},
		}},
		{"a program that doesn't say", unknown, debug.BuildInfo{}},
	} {
		if got := of(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
