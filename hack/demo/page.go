package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// page is the output of the demo: on a terminal as it happens, and as Markdown for the documentation.
type page struct {
	terminal io.Writer
	colours  bool

	markdown strings.Builder
	chapters int
	block    string // the language of the open Markdown block, or empty
}

// title begins a chapter.
func (p *page) title(text string) {
	p.end()
	p.chapters++
	text = fmt.Sprintf("%d. %s", p.chapters, text)
	fmt.Fprintf(&p.markdown, "\n## %s\n", text)
	p.print("\n"+text+"\n", "1")
}

// say adds a paragraph and breaks it into lines of its own. Text in single quotes is code.
func (p *page) say(text string) {
	p.end()
	lines := wrap(codeRE.ReplaceAllString(text, "`$1`"), 110)
	fmt.Fprintf(&p.markdown, "\n%s\n", lines)
	p.print("\n"+lines+"\n", "")
}

// codeRE matches text in single quotes, but no apostrophes.
var codeRE = regexp.MustCompile(`\B'([^']+)'\B`)

// show adds the content of a file.
func (p *page) show(language, text string) {
	p.end()
	p.begin(language)
	p.add(text, "2")
	p.end()
}

// command adds a command as a user would type it, and its output. Consecutive commands form one block.
func (p *page) command(line, output string) {
	if p.block != "console" {
		p.end()
		p.begin("console")
	}
	p.add("$ "+line+"\n", "36")
	p.add(output, "")
}

func (p *page) begin(language string) {
	p.block = language
	fmt.Fprintf(&p.markdown, "\n```%s\n", language)
	p.print("\n", "")
}

func (p *page) end() {
	if p.block != "" {
		p.markdown.WriteString("```\n")
	}
	p.block = ""
}

func (p *page) add(text, colour string) {
	p.markdown.WriteString(text)
	for line := range strings.Lines(text) {
		p.print("  "+line, colour)
	}
}

// print writes to the terminal. Errors don't matter: nobody may be looking at it.
func (p *page) print(text, colour string) {
	if p.colours && colour != "" {
		text = "\x1b[" + colour + "m" + strings.TrimSuffix(text, "\n") + "\x1b[0m\n"
	}
	_, _ = io.WriteString(p.terminal, text)
}

// wrap breaks a paragraph into lines.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
