// Package text limits the length of foreign texts, so that they fit into logs, conditions and screens.
package text

import (
	"fmt"
	"strings"
)

// Truncate returns the first n bytes of a longer text, cut between characters, with an ellipsis (3 bytes) added.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// First lists the first n words, and how many more there are.
func First(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}
