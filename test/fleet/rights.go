package fleet

import (
	"embed"
	"path"
)

//go:embed rbac/*.yaml
var rbac embed.FS

// Rights returns the roles and bindings of "dns", "member" or "hub": what the process may do in its own cluster, and no
// more. "hub-members" is an addition for the hub. The user with these rights is called clusterset-dns, and so on.
func Rights(component string) []byte {
	manifest, err := rbac.ReadFile(path.Join("rbac", component+".yaml"))
	if err != nil {
		panic(err) // the caller names a file that doesn't exist
	}
	return manifest
}
