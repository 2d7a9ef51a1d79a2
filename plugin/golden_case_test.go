package clusterset_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"
)

// goldenCase is one file of the corpus. testdata/README.md describes its form.
type goldenCase struct {
	file                 string
	archive              *txtar.Archive
	sources, environment []string
	corefile             string
	objects              []byte
	extra                []txtar.File // files that other plugins read
	queries              []goldenQuery
	log                  []string
	metrics              []string // see README.md
	tail                 string   // comments after the last query
}

// goldenQuery is one dig line with the reply in its normal form.
type goldenQuery struct {
	line int    // line number in the file
	lead string // the comments and blank lines before it
	text string // the dig line without "dig"
	want string

	msg         dns.Msg // without an ID
	transport   string  // udp, tcp or tls
	size, count bool    // whether to show the reply's size and record count
	serial      string  // for IXFR: current, old or a number
}

func readGoldenCase(file string) (*goldenCase, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	archive := txtar.Parse(data)
	c := &goldenCase{file: file, archive: archive, sources: []string{"manifests", "kubernetes"}}
	for line := range strings.Lines(string(archive.Comment)) {
		if names, ok := strings.CutPrefix(line, "# sources:"); ok {
			c.sources = strings.Fields(names)
		}
		if variables, ok := strings.CutPrefix(line, "# environment:"); ok {
			c.environment = strings.Fields(variables)
		}
	}
	for _, f := range archive.Files {
		switch f.Name {
		case "Corefile":
			c.corefile = string(f.Data)
		case "objects.yaml":
			c.objects = f.Data
		case "log":
			c.log = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case "metrics":
			c.metrics = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case "queries":
			before, _, _ := bytes.Cut(data, []byte("\n-- queries --\n"))
			err = c.parseQueries(string(f.Data), bytes.Count(before, []byte("\n"))+2)
		default:
			c.extra = append(c.extra, f)
		}
	}
	if err == nil && (c.corefile == "" || len(c.queries) == 0 || len(c.sources) == 0) {
		err = errors.New("want the files Corefile and queries, and a source")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// parseQueries reads the queries file. A dig line begins a query, the lines after it up to a blank line are the reply, and all other
// lines are kept unchanged. n is the number of the line before data.
func (c *goldenCase) parseQueries(data string, n int) error {
	var q *goldenQuery
	for line := range strings.Lines(data) {
		n++
		line = strings.TrimSuffix(line, "\n")
		text, isDig := strings.CutPrefix(line, "dig ")
		switch {
		case isDig:
			c.queries = append(c.queries, goldenQuery{line: n, text: text, lead: c.tail, transport: "udp"})
			c.tail = ""
			q = &c.queries[len(c.queries)-1]
			if err := q.parse(strings.Fields(text)); err != nil {
				return fmt.Errorf("line %d: dig %s: %w", n, text, err)
			}
		case line == "" || q == nil:
			q = nil
			c.tail += line + "\n"
		default:
			q.want += line + "\n"
		}
	}
	return nil
}

// parse reads a dig line: TYPE NAME [+OPTION...].
func (q *goldenQuery) parse(fields []string) error {
	if len(fields) < 2 {
		return errors.New("want dig TYPE NAME [+OPTION...]")
	}
	qtype, known := dns.StringToType[fields[0]]
	class, edns, do := uint16(dns.ClassINET), uint64(0), false
	var err error
	for _, option := range fields[2:] {
		name, value, _ := strings.Cut(option, "=")
		found := true
		switch name {
		case "+tcp", "+tls":
			q.transport = name[1:]
		case "+edns":
			if edns, err = strconv.ParseUint(value, 10, 16); err != nil {
				return err
			}
		case "+do":
			do = true
		case "+rd":
			q.msg.RecursionDesired = true
		case "+cd":
			q.msg.CheckingDisabled = true
		case "+size":
			q.size = true
		case "+count":
			q.count = true
		case "+serial":
			q.serial = value
		case "+opcode":
			q.msg.Opcode, found = dns.StringToOpcode[value]
		case "+class":
			class, found = dns.StringToClass[value]
		default:
			found = false
		}
		known = known && found
	}
	if !known {
		return errors.New("an unknown type or option")
	}
	q.msg.Question = []dns.Question{{Name: dns.Fqdn(fields[1]), Qtype: qtype, Qclass: class}}
	if do && edns == 0 {
		edns = 1232
	}
	if edns > 0 {
		q.msg.SetEdns0(uint16(edns), do) //nolint:gosec // parsed as 16 bits
	}
	return nil
}

// write replaces the case's queries file with one that has the actual replies.
func (c *goldenCase) write() error {
	var b strings.Builder
	for i := range c.queries {
		q := &c.queries[i]
		b.WriteString(q.lead + "dig " + q.text + "\n" + q.want)
	}
	b.WriteString(c.tail)
	at := slices.IndexFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == "queries" })
	c.archive.Files[at].Data = []byte(b.String())
	return os.WriteFile(c.file, txtar.Format(c.archive), 0o644)
}
