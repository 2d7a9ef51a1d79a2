// Command dig does what the documentation needs of dig, for machines without it: it asks for an address over UDP and prints the answer.
// DIG_ADDRESSES names a file of lines such as "10.96.0.53 127.0.0.1:20053". It redirects queries to addresses that exist only in a cluster's
// network.
//
//	dig @SERVER NAME +short
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/miekg/dns"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, ";; "+err.Error())
		os.Exit(9) // as dig exits when no server answers
	}
}

func run(args []string) error {
	if len(args) != 3 || !strings.HasPrefix(args[0], "@") || args[2] != "+short" {
		return errors.New("this dig wants @SERVER NAME +short")
	}
	server, err := reached(args[0][1:])
	if err != nil {
		return err
	}
	r, err := dns.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(args[1]), dns.TypeA), server)
	if err != nil {
		return fmt.Errorf("communications error to %s: %w", args[0], err)
	}
	for _, rr := range r.Answer {
		fmt.Println(strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return nil
}

// reached returns the address at which a server can be reached.
func reached(server string) (string, error) {
	content, err := os.ReadFile(os.Getenv("DIG_ADDRESSES"))
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
