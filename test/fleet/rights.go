package fleet

import (
	"embed"
	"path"
)

//go:embed rbac/*.yaml
var rbac embed.FS

// Rights returns the chart's roles for "dns", "member" or "hub": what that process may do in its own cluster. They are bound to
// the user clusterset-dns and so on. "hub-members" and "hub-leader" are additional roles for the hub. The latter needs the
// namespace clusterset-system. make generate writes them (see test/chart).
func Rights(component string) []byte {
	manifest, err := rbac.ReadFile(path.Join("rbac", component+".yaml"))
	if err != nil {
		panic(err) // the caller names a file that doesn't exist
	}
	return manifest
}
