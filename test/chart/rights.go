package chart

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	rbacRE      = regexp.MustCompile(`(?m)^apiVersion: rbac\.`)
	labelsRE    = regexp.MustCompile(`(?m)^  labels:\n(    .*\n)+`)
	componentRE = regexp.MustCompile(`app\.kubernetes\.io/component: (\w+)`)
	subjectsRE  = regexp.MustCompile(`(?s)subjects:.*`)
	nameRE      = regexp.MustCompile(`(?m)^  name: (\S+)`)
)

// Rights returns the roles of the chart, by the names of their files in test/fleet/rbac, each bound to a user instead of a
// ServiceAccount: clusterset-dns, clusterset-member or clusterset-hub. With them the end-to-end tests show that the chart's roles
// suffice. Namespaced roles are left out of dns.yaml, because only a pod has a Service of its own. The hub's are in
// hub-leader.yaml. Its rights to create members are in hub-members.yaml.
func Rights(from string) (map[string][]byte, error) {
	rendered, err := Render(from, Options{
		"clusterset", "clusterset-system", "{hub: {enabled: true, manageMembers: true, server: 'https://hub.example.com:6443'}}", "v1.36.0",
	})
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, document := range separator.Split(rendered.Manifests, -1) {
		if !rbacRE.MatchString(document) {
			continue
		}
		file := componentRE.FindStringSubmatch(document)[1]
		user := fmt.Sprintf("subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: clusterset-%s}]", file)
		switch inNamespace := strings.Contains(document, "\n  namespace: "); {
		case strings.HasPrefix(nameRE.FindStringSubmatch(document)[1], "clusterset-hub-members:"):
			file = "hub-members"
		case inNamespace && file == "hub":
			file = "hub-leader"
		case inNamespace && file == "dns":
			continue
		}
		document = labelsRE.ReplaceAllString(document, "") // labels contain the chart's version
		document = subjectsRE.ReplaceAllString(document, user)
		if file += ".yaml"; files[file] == nil {
			files[file] = []byte("# Written by make generate.\n")
		}
		files[file] = fmt.Appendf(files[file], "---\n%s\n", strings.TrimSpace(document))
	}
	return files, nil
}
