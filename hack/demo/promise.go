package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// check returns an error if the output of a command isn't as promised.
type check func(output string) error

// line promises a line that begins with the words, with any white space between them.
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

// phase promises that the table of clusters of `clusterset explain` shows a cluster in a phase.
func phase(cluster, phase string) check {
	re := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(cluster) + `\s\s+` + regexp.QuoteMeta(phase) + `\s\s`)
	return func(output string) error {
		if !re.MatchString(output) {
			return fmt.Errorf("%s isn't shown as %s", cluster, phase)
		}
		return nil
	}
}

// member promises the same of `clusterset status`, which also counts a cluster's exports.
func member(cluster, phase string, exports int) check {
	re := regexp.MustCompile(fmt.Sprintf(`(?m)^%s( \*)?\s\s+%s\s\s.*\s\s%d$`, regexp.QuoteMeta(cluster), regexp.QuoteMeta(phase), exports))
	return func(output string) error {
		if !re.MatchString(output) {
			return fmt.Errorf("%s isn't shown as %s with %d exports", cluster, phase, exports)
		}
		return nil
	}
}

// measured promises that every agent knows whom it can reach: then the table that says otherwise is gone.
func measured(output string) error {
	if strings.Contains(output, "NOT MEASURED") {
		return errors.New("some clusters aren't measured yet")
	}
	return nil
}

// services promises the counts of services, with no conflicts, and of problems.
func services(counts, problems string) check {
	return line(strings.Fields("Services " + counts + ", 0 conflicts Problems " + problems)...)
}

// answer promises the addresses that `clusterset explain` prints as the answer.
func answer(addresses ...string) check { return line(append([]string{"Answer"}, addresses...)...) }
