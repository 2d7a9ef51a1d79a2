package main

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	const list = "# kind | file TYPE\nequivalent | p/a.go T | < 1 { | why\naccepted | p/a.go T | > 2 { | why\nequivalent | q/a.go T | x | why\n"
	a, b := "p/a.go T | < 1 {", "p/a.go T | > 2 {"
	for _, c := range []struct {
		name   string
		killed int
		lived  []string
		want   string
	}{
		{"all are listed", 19, []string{a, b}, ""},
		{"too few", 18, []string{a, b}, "too few are killed"},
		{"there is no mutant", 0, nil, "too few are killed"},
		{"one is new", 99, []string{a, b, "p/a.go T | == 3"}, "survives: p/a.go T | == 3"},
		{"one is gone", 99, []string{a}, "survives no more: " + b},
	} {
		err := judge("p", c.killed, c.lived, list)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
