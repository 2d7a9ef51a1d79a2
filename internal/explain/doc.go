// Package explain says why a name has the addresses that it has: which object answers, which tier won, and why each other
// endpoint was passed over.
//
// It decides nothing itself. The answer is that of internal/index, as the DNS server's is, and what becomes of each endpoint is
// what the index's ranking says. The flow: name.go reads what was asked, fetch.go or internal/manifests the objects, explain.go
// makes an Explanation of them and render.go a screen of that.
package explain
