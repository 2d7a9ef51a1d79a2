package main

import (
	"fmt"
	"regexp"
	"strings"
)

// check says what is wrong with the output of a command.
type check func(output string) error

// line promises a line that begins with the words, whatever stands between them.
func line(words ...string) check {
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	re := regexp.MustCompile(`(?m)^` + strings.Join(words, `\s+`) + `(\s|$)`)
	return func(output string) error {
		if !re.MatchString(output) {
			return fmt.Errorf("no line begins with %q", strings.Join(words, " "))
		}
		return nil
	}
}

// phase promises that the table of clusters of `clusterset explain` shows one in a phase.
func phase(cluster, phase string) check {
	re := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(cluster) + `\s\s+` + regexp.QuoteMeta(phase) + `\s\s`)
	return func(output string) error {
		if !re.MatchString(output) {
			return fmt.Errorf("%s isn't shown as %s", cluster, phase)
		}
		return nil
	}
}

// member promises the same of `clusterset status`, which also counts what a cluster exports.
func member(cluster, phase string, exports int) check {
	re := regexp.MustCompile(fmt.Sprintf(`(?m)^%s( \*)?\s\s+%s\s\s.*\s\s%d$`, regexp.QuoteMeta(cluster), regexp.QuoteMeta(phase), exports))
	return func(output string) error {
		if !re.MatchString(output) {
			return fmt.Errorf("%s isn't shown as %s with %d exports", cluster, phase, exports)
		}
		return nil
	}
}

// services promises how many there are, and that nothing is wrong with any.
func services(counts string) check {
	return line(strings.Fields("Services " + counts + ", 0 conflicts, 0 problems")...)
}

// answer promises what `clusterset explain` gives as the answer.
func answer(addresses ...string) check { return line(append([]string{"Answer"}, addresses...)...) }
