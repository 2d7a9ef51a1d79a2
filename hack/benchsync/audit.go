package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/api"
)

// agentHere is the user of an agent in its own cluster; on the hub that is the service account made by join (agentOnHub).
const agentHere = "clusterset-member"

func agentOnHub(cluster string) string {
	return "system:serviceaccount:" + api.MemberNamespace(cluster) + ":" + api.MemberServiceAccount
}

// auditPolicy records the writes of agents, but not what near's agent creates: a first import creates tens of thousands of objects, and the API
// server writes each line before it answers.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [system:serviceaccounts:kube-system]
- level: Metadata
  verbs: [update, patch, delete, deletecollection]
  users: [clusterset-member]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  userGroups: [system:serviceaccounts]
- level: None
`

// auditLog is the path of an API server's audit log.
type auditLog string

func (b *bench) audit(cluster string) auditLog {
	return auditLog(filepath.Join(b.dir, cluster+"-audit.log"))
}

type auditEvent struct {
	Stage, Verb string
	User        struct{ Username string }
	ObjectRef   struct{ Resource, Subresource string }
}

// size returns the current length of the log, from which writes can read on.
func (a auditLog) size() int64 {
	info, err := os.Stat(string(a))
	if err != nil {
		return 0
	}
	return info.Size()
}

// writes returns how many writes of each kind a user has made after an offset, without heartbeats, such as "3 (update services: 2, …)".
func (a auditLog) writes(from int64, user string) (string, error) {
	f, err := os.Open(string(a))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(from, 0); err != nil {
		return "", err
	}
	n, counts := 0, map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break // an incomplete line, which is still being written
		}
		if e.User.Username == user && e.Stage == "ResponseComplete" && e.ObjectRef.Resource != "leases" {
			n++
			counts[strings.TrimSuffix(e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")]++
		}
	}
	if err := lines.Err(); n == 0 || err != nil {
		return "0", err
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s: %d", k, counts[k]))
	}
	return fmt.Sprintf("%d (%s)", n, strings.Join(words, ", ")), nil
}
