// Command dig does what the documentation needs of dig, for machines without it: it sends one question over UDP and prints the
// answer in dig's format. DIG_ADDRESSES names a file of lines such as "10.96.0.53 127.0.0.1:20053". It redirects queries to
// addresses that exist only in a cluster's network.
//
//	dig [@SERVER] [-p PORT] NAME [TYPE] [+short] [+noall +answer]
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/miekg/dns"
)

func main() {
	q, err := parse(os.Args[1:])
	if err == nil {
		err = q.ask()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, ";; "+err.Error())
		os.Exit(9) // as dig exits when no server answers
	}
}

type question struct {
	server, port, name string
	qtype              uint16
	short, answerOnly  bool
}

func parse(args []string) (*question, error) {
	q := &question{port: "53", qtype: dns.TypeA}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.HasPrefix(a, "@"):
			q.server = a[1:]
		case a == "-p" && i+1 < len(args):
			i++
			q.port = args[i]
		case a == "+short":
			q.short = true
		case a == "+noall":
		case a == "+answer":
			q.answerOnly = true
		case strings.HasPrefix(a, "+"), strings.HasPrefix(a, "-"):
			return nil, fmt.Errorf("this dig has no option %s", a)
		case q.name == "":
			q.name = dns.Fqdn(a)
		case dns.StringToType[strings.ToUpper(a)] != 0:
			q.qtype = dns.StringToType[strings.ToUpper(a)]
		default:
			return nil, fmt.Errorf("this dig doesn't understand %q", a)
		}
	}
	if q.server == "" || q.name == "" {
		return nil, errors.New("this dig wants @SERVER and a name")
	}
	return q, nil
}

func (q *question) ask() error {
	server, err := reached(q.server, q.port)
	if err != nil {
		return err
	}
	r, err := dns.Exchange(new(dns.Msg).SetQuestion(q.name, q.qtype), server)
	if err != nil {
		return fmt.Errorf("communications error to %s: %w", q.server, err)
	}
	if !q.short && !q.answerOnly {
		fmt.Printf(";; ->>HEADER<<- opcode: QUERY, status: %s\n", dns.RcodeToString[r.Rcode])
	}
	for _, rr := range r.Answer {
		if q.short {
			fmt.Println(strings.TrimPrefix(rr.String(), rr.Header().String()))
		} else {
			fmt.Println(rr)
		}
	}
	return nil
}

// reached returns the address at which a server can be reached.
func reached(server, port string) (string, error) {
	path := os.Getenv("DIG_ADDRESSES")
	if path == "" {
		return net.JoinHostPort(server, port), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == server {
			return f[1], nil
		}
	}
	return "", fmt.Errorf("connection timed out; no servers could be reached: nothing serves at %s", server)
}
