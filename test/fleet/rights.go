package fleet

import (
	"embed"
	"path"
)

//go:embed rbac/*.yaml
var rbac embed.FS

// Rights returns the roles and bindings of "dns", "member", "hub" or "hub-members", which is more for the hub: what the process may do in its own cluster, and no more
// than it needs. The user that has them is called clusterset-dns, and so on.
func Rights(component string) []byte {
	manifest, err := rbac.ReadFile(path.Join("rbac", component+".yaml"))
	if err != nil {
		panic(err) // it names a file of ours
	}
	return manifest
}
