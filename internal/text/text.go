// Package text keeps texts that others wrote to a length that logs, conditions and screens have room for.
package text

import "strings"

// Truncate returns the first n bytes of a longer text, without half a character, and an ellipsis (3 bytes).
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
