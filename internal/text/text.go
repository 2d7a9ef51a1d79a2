// Package text limits the length of foreign texts, so that they fit into logs, conditions and screens.
package text

import "strings"

// Truncate returns the first n bytes of a longer text, cut between characters, with an ellipsis (3 bytes) added.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
