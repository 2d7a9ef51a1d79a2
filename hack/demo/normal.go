package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	tokenRE     = regexp.MustCompile(`valid until \d{4}-\d\d-\d\d`)
	hubRE       = regexp.MustCompile(`https://127\.0\.0\.1:\d+`)
	latencyRE   = regexp.MustCompile(`reachable \(\d+ms\)`)
	queryRE     = regexp.MustCompile(`, id: \d+`)
	serviceIPRE = regexp.MustCompile(`\b10\.(\d+)\.0\.(\d{3})\b`)
	heartbeatRE = regexp.MustCompile(`(?m)^(\w+(?: \*)?\s\s+(Ready|Suspect|Expired)\b.*?\s)((?:\d+[smhd])+)( ago)?( *)`)
)

// normal replaces what differs from one run to the next: times, ports, the path of the repository, and what the API servers pick at random.
// Columns stay where they are.
func (t *tour) normal(text string) string {
	for i, m := range t.members() {
		text = strings.ReplaceAll(text, "-p "+m.DNS.Port+" ", "-p "+port(i)+" ")
		text = strings.ReplaceAll(text, ".:"+m.DNS.Port+" {", ".:"+port(i)+" {")
	}
	text = strings.ReplaceAll(text, t.base+"/", "")
	text = tokenRE.ReplaceAllString(text, "valid until 2027-01-15")
	text = hubRE.ReplaceAllString(text, "https://127.0.0.1:6443")
	text = latencyRE.ReplaceAllString(text, "reachable (3ms)")
	text = queryRE.ReplaceAllString(text, ", id: 4711")
	text = heartbeatRE.ReplaceAllStringFunc(text, heartbeat)
	return serviceIPs(text)
}

// heartbeat replaces the age of a cluster's last heartbeat in a table with the lowest that is possible in its phase.
func heartbeat(row string) string {
	m := heartbeatRE.FindStringSubmatch(row)
	age := map[string]string{"Ready": "1s", "Suspect": "6s", "Expired": "16s"}[m[2]]
	width := len(m[3]) + len(m[4]) + len(m[5])
	return m[1] + fmt.Sprintf("%-*s", width, age+m[4])
}

// serviceIPs numbers each cluster's Service addresses in the order of their appearance.
func serviceIPs(text string) string {
	known, next := map[string]string{}, map[string]int{}
	return serviceIPRE.ReplaceAllStringFunc(text, func(ip string) string {
		if known[ip] == "" {
			cluster := serviceIPRE.FindStringSubmatch(ip)[1]
			known[ip] = fmt.Sprintf("10.%s.0.%d", cluster, 131+next[cluster])
			next[cluster]++
		}
		return known[ip]
	})
}
