// Command mutants judges what gremlins reports of one package. It fails if fewer than 95 % of the mutants that change something are killed,
// or none, and if survivors.txt lacks a survivor or lists one that survives no more.
//
//	mutants REPORT.json internal/merge
//
// Go's coverage has no block for constants and for the conditions of a switch's cases. gremlins takes them for not covered, so mutants
// tries them itself, and those that timed out: a busy machine would kill them. It leaves out mutants that don't compile, which gremlins
// takes for killed.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const least = 0.95 // of the mutants that aren't equivalent

//go:embed survivors.txt
var survivors string

type mutant struct {
	Type, Status string
	Line, Column int
}

type report struct {
	Files []struct {
		Name      string   `json:"file_name"`
		Mutations []mutant `json:"mutations"`
	}
}

// other is what gremlins makes of an operator.
var other = map[string]map[string]string{
	"CONDITIONALS_NEGATION": {"==": "!=", "!=": "==", "<=": ">", ">": "<=", "<": ">=", ">=": "<"},
	"CONDITIONALS_BOUNDARY": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
	"ARITHMETIC_BASE":       {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
	"INCREMENT_DECREMENT":   {"++": "--", "--": "++"},
	"INVERT_NEGATIVES":      {"-": "+"},
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, pkg string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	killed, lived, seen := 0, []string(nil), map[string]bool{}
	for _, f := range r.Files {
		file := filepath.Join(pkg, f.Name)
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range f.Mutations {
			id := fmt.Sprint(file, m.Line, m.Column, m.Type)
			if seen[id] {
				continue
			}
			seen[id] = true
			rest := strings.Split(string(source), "\n")[m.Line-1][m.Column-1:]
			if m.Status == "NOT COVERED" || m.Status == "TIMED OUT" || m.Type == "ARITHMETIC_BASE" && m.Status == "KILLED" {
				if m.Status, err = try(file, source, m, rest); err != nil {
					return err
				}
			}
			switch m.Status {
			case "KILLED":
				killed++
			case "LIVED":
				lived = append(lived, file+" "+m.Type+" | "+rest)
			}
		}
	}
	return judge(pkg, killed, lived, survivors)
}

// try tests one mutant and returns its status.
func try(file string, source []byte, m mutant, rest string) (string, error) {
	op := rest[:1]
	if _, ok := other[m.Type][rest[:min(2, len(rest))]]; ok {
		op = rest[:2]
	}
	at := len(strings.Join(strings.SplitAfter(string(source), "\n")[:m.Line-1], "")) + m.Column - 1
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	text := string(source[:at]) + other[m.Type][op] + string(source[at+len(op):])
	err = errors.Join(
		os.WriteFile(changed, []byte(text), 0o600),
		os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, absolute, changed), 0o600))
	if err != nil {
		return "", err
	}
	succeeds := func(verb string, args ...string) bool {
		args = append([]string{verb, "-overlay", overlay}, args...)
		return exec.CommandContext(context.Background(), "go", append(args, "./"+filepath.Dir(file))...).Run() == nil //nolint:gosec // our own arguments
	}
	switch {
	case !succeeds("build"):
		return "NOT VIABLE", nil
	case m.Status == "KILLED" || !succeeds("test", "-timeout", "2m", "-failfast", "-vet=off"):
		return "KILLED", nil
	}
	return "LIVED", nil
}

// judge compares the survivors of a package with those listed: lines of "kind | file TYPE | the line from the operator on | reason".
func judge(pkg string, killed int, lived []string, list string) error {
	var wrong []string
	equivalent := 0
	known := map[string]bool{}
	for line := range strings.Lines(list) {
		part := strings.Split(strings.TrimSpace(line), " | ")
		if len(part) != 4 || filepath.Dir(strings.Fields(part[1])[0]) != filepath.Clean(pkg) {
			continue
		}
		id := part[1] + " | " + part[2]
		known[id] = true
		switch {
		case !slices.Contains(lived, id):
			wrong = append(wrong, "survives no more: "+id)
		case part[0] == "equivalent":
			equivalent++
		}
	}
	for _, id := range lived {
		if !known[id] {
			wrong = append(wrong, "survives: "+id)
		}
	}
	all := killed + len(lived) - equivalent
	fmt.Printf("%s: %d of %d mutants killed, %d more are equivalent\n", pkg, killed, all, equivalent)
	if killed == 0 || float64(killed) < least*float64(all) {
		wrong = append(wrong, "too few are killed")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s:\n  %s", pkg, strings.Join(wrong, "\n  "))
	}
	return nil
}
