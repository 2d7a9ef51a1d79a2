package docs

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// The server of `make run` answers as the README's first screen shows, and the README has the three dig commands that `make run`
// prints.
func TestReadmeDigs(t *testing.T) {
	addr := start(t, read(t, filepath.Join(root, "examples", "Corefile")), "", "").DNS
	kube.Eventually(t, func() error { return answers(addr, "svc.global.") })

	readme := read(t, filepath.Join(root, "README.md"))
	console := regexp.MustCompile("(?s)```console elsewhere\n(.*?)```").FindStringSubmatch(readme)[1]
	makefile := read(t, filepath.Join(root, "Makefile"))
	digs := regexp.MustCompile(`(?m)^  dig @127\.0\.0\.1 -p 1053 (\S+)(?: (\S+))?$`).FindAllStringSubmatch(console, -1)
	if len(digs) != 3 {
		t.Fatalf("README has %d dig lines, want the three of make run", len(digs))
	}
	for _, dig := range digs {
		if printed := strings.Replace(strings.TrimSpace(dig[0]), "1053", "$(PORT)", 1); !strings.Contains(makefile, printed) {
			t.Errorf("make run does not print %q", printed)
		}
		if r := ask(t, addr, dig[1], dig[2]); len(r.Answer) == 0 {
			t.Errorf("%s has no answer:\n%v", dig[0], r)
		}
	}
	name := "nginx.default.svc.global."
	var got []string
	for _, rr := range ask(t, addr, name, "").Answer {
		got = append(got, rr.String())
	}
	want := regexp.MustCompile(`(?m)^nginx.*\tA\t.*$`).FindAllString(console, -1)
	for i := range want {
		want[i] = strings.Join(strings.Fields(want[i]), "\t")
	}
	slices.Sort(got) // the loadbalance plugin shuffles answers
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s\ngot  %q\nwant %q, as README.md says", name, got, want)
	}
}

func ask(t *testing.T, addr, name, qtype string) *dns.Msg {
	t.Helper()
	r, err := dns.Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[cmp.Or(qtype, "A")]), addr)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
