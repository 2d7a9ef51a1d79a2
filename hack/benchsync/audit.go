package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/api"
)

// agentHere is the user of an agent in its own cluster; on the hub that is the service account made by join (agentOnHub). hubProcess is the
// user of the hub process.
const agentHere, hubProcess = "clusterset-member", "clusterset-hub"

func agentOnHub(cluster string) string {
	return "system:serviceaccount:" + api.MemberNamespace(cluster) + ":" + api.MemberServiceAccount
}

// auditPolicy records the writes and watches of agents and of the hub process. The API server writes each line before it answers.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: [system:serviceaccounts:kube-system]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection, watch]
  users: [clusterset-member, clusterset-hub]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection, watch]
  userGroups: [system:serviceaccounts]
- level: None
`

// auditLog is the audit log of an API server.
type auditLog struct{ path string }

type auditEvent struct {
	AuditID string `json:"auditID"`
	Stage   string `json:"stage"`
	Verb    string `json:"verb"`
	User    struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

// size returns the current length of the log, from which the methods below can read on.
func (a *auditLog) size() int64 {
	info, err := os.Stat(a.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// since returns a user's events after an offset in the log.
func (a *auditLog) since(from int64, user string) ([]auditEvent, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(from, 0); err != nil {
		return nil, err
	}
	var all []auditEvent
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break // an incomplete line, which is still being written
		}
		if e.User.Username == user {
			all = append(all, e)
		}
	}
	return all, lines.Err()
}

// writes counts a user's writes after an offset, by verb and resource. Heartbeats are counted separately.
func (a *auditLog) writes(from int64, user string) (n, heartbeats int, what string, err error) {
	events, err := a.since(from, user)
	counts := map[string]int{}
	for _, e := range events {
		switch {
		case e.Verb == "watch" || e.Stage != "ResponseComplete":
		case e.ObjectRef.Resource == "leases":
			heartbeats++
		default:
			n++
			counts[strings.TrimSuffix(e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")]++
		}
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s: %d", k, counts[k]))
	}
	return n, heartbeats, strings.Join(words, ", "), err
}

// watches returns how many watches a user opened after an offset, and the resources of those that are still open.
func (a *auditLog) watches(from int64, user string) (opened int, open []string, err error) {
	events, err := a.since(from, user)
	resources := map[string]string{}
	for _, e := range events {
		switch {
		case e.Verb != "watch":
		case e.Stage == "ResponseStarted":
			opened++
			resources[e.AuditID] = e.ObjectRef.Resource
		case e.Stage == "ResponseComplete":
			delete(resources, e.AuditID)
		}
	}
	return opened, slices.Sorted(maps.Values(resources)), err
}
