// Package version says which release of this module a program holds. Both commands, their metrics and their User-Agent take it
// from here, so that they agree with each other and with the chart and the image that the release makes.
package version

import (
	"runtime/debug"
	"slices"
	"sync"
)

const module = "github.com/clusterset/clusterset"

// release is set by the linker: -X github.com/clusterset/clusterset/internal/version.release=v1.2.3.
var release string

// String returns the release, such as "v1.2.3". In a build that doesn't set it, it is the module's version as the Go toolchain
// knows it: of the program (`go install …@v1.2.3`), or of the dependency where the plugin is compiled into another CoreDNS.
// It is "(devel)" for a build of a work tree without version control, and "unknown" where the program holds no build information.
var String = sync.OnceValue(func() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return of(info)
	}
	return unknown
})

const unknown = "unknown"

func of(info *debug.BuildInfo) string {
	if info.Main.Path == module && info.Main.Version != "" {
		return info.Main.Version
	}
	if i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module }); i >= 0 {
		return info.Deps[i].Version
	}
	return unknown
}
