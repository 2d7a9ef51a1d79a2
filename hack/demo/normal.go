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
// Columns stay where they are. It adds to the known addresses of Services.
func (t *tour) normal(text string, known map[string]string) string {
	for i, m := range t.members {
		text = strings.ReplaceAll(text, ".:"+m.DNS.Port+" {", ".:"+port(i)+" {")
	}
	text = strings.ReplaceAll(text, t.base+"/", "")
	text = tokenRE.ReplaceAllString(text, "valid until 2027-01-15")
	text = hubRE.ReplaceAllString(text, "https://127.0.0.1:6443")
	text = latencyRE.ReplaceAllString(text, "reachable (3ms)")
	text = queryRE.ReplaceAllString(text, ", id: 4711")
	text = heartbeatRE.ReplaceAllStringFunc(text, heartbeat)
	return serviceIPRE.ReplaceAllStringFunc(text, func(ip string) string {
		if known[ip] == "" { // they are numbered in each cluster in the order of their appearance
			cluster, n := serviceIPRE.FindStringSubmatch(ip)[1], 131
			for other := range known {
				if strings.HasPrefix(other, "10."+cluster+".") {
					n++
				}
			}
			known[ip] = fmt.Sprintf("10.%s.0.%d", cluster, n)
		}
		return known[ip]
	})
}

// heartbeat replaces the age of a cluster's last heartbeat in a table with the lowest that is possible in its phase.
func heartbeat(row string) string {
	m := heartbeatRE.FindStringSubmatch(row)
	age := map[string]string{"Ready": "1s", "Suspect": "6s", "Expired": "16s"}[m[2]]
	width := len(m[3]) + len(m[4]) + len(m[5])
	return m[1] + fmt.Sprintf("%-*s", width, age+m[4])
}
