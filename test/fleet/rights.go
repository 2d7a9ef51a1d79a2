package fleet

import (
	"embed"
	"path"
)

//go:embed rbac/*.yaml
var rbac embed.FS

// Rights returns the chart's roles of "dns", "member" or "hub", which are what the process may do in its own cluster, bound to a
// user called clusterset-dns and so on. "hub-members" and "hub-leader" are additions for the hub; the latter needs the namespace
// clusterset-system. make generate writes them (see test/chart).
func Rights(component string) []byte {
	manifest, err := rbac.ReadFile(path.Join("rbac", component+".yaml"))
	if err != nil {
		panic(err) // the caller names a file that doesn't exist
	}
	return manifest
}
