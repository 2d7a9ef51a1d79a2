// Package explain explains why a name has its addresses: which object answers, which tier was chosen, and why each other
// endpoint was not.
//
// It makes no decisions of its own. The answer comes from internal/index, like the DNS server's, and the verdict on each endpoint from
// the index's ranking. The flow: name.go parses the name, fetch.go or internal/manifests reads the objects, explain.go builds an
// Explanation, and render.go prints it.
package explain
