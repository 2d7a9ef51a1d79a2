// Package near finds what a person meant by a name that doesn't exist.
package near

import (
	"fmt"
	"slices"
	"strings"
)

// Unknown says that a name isn't among the known ones, and which of them was probably meant. what is the kind of the name, such as "cluster".
func Unknown(what, name string, known []string) error {
	meant := Meant(name, known)
	switch {
	case meant != "":
		return fmt.Errorf("there is no %s %s%s", what, name, meant)
	case len(known) == 0:
		return fmt.Errorf("there is no %s %s, and no other", what, name)
	case len(known) > shown:
		return fmt.Errorf("there is no %s %s; there are %s and %d more", what, name, strings.Join(known[:shown], ", "), len(known)-shown)
	}
	return fmt.Errorf("there is no %s %s; there are %s", what, name, strings.Join(known, ", "))
}

// Meant asks whether one of the known names was meant by a word of a text that is none of them, as the end of a sentence: "; did you mean zone?".
// It is empty if none is near.
func Meant(text string, known []string) string {
	best, least := "", 3
	for _, word := range strings.Fields(text) {
		for _, k := range slices.Sorted(slices.Values(known)) {
			if d := Distance(strings.ToLower(word), strings.ToLower(k)); d < least && d < len(word) && !slices.Contains(known, word) {
				best, least = k, d
			}
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// shown is how many known names an error lists.
const shown = 10

// Distance is the number of letters to insert, delete or replace to get from a to b (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
