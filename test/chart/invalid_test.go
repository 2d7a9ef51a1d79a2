package chart

import (
	"strings"
	"testing"
)

// Invalid values are rejected before anything is installed, with a message that says what to do.
func TestInvalidValues(t *testing.T) {
	for _, c := range []struct{ name, values, namespace, kube, want string }{
		// Wrong names and types, rejected by values.schema.json.
		{"unknown key", "dsn: {}", "", "", `additional properties 'dsn' not allowed`},
		{"unknown key within", "location: {zones: a}", "", "", `at '/location': additional properties 'zones' not allowed`},
		{"text for a number", "dns: {replicas: two}", "", "", `at '/dns/replicas': got string, want integer`},
		{"no replicas", "member: {replicas: 0}", "", "", `at '/member/replicas': minimum: got 0, want 1`},
		{"unknown mode", "dns: {mode: replace}", "", "", `at '/dns/mode': value must be one of 'standalone', 'clusterDNS'`},
		{"unknown tier", "prefer: [rack]", "", "", `at '/prefer/0': value must be one of 'cluster', 'zone', 'region', 'none'`},
		{"a tier twice", "prefer: [zone, zone]", "", "", `at '/prefer': items at 0 and 1 are equal`},
		{"unknown boundary", "boundary: rack", "", "", `at '/boundary': value must be one of '', 'cluster', 'zone', 'region'`},
		{"no zones", "dns: {zones: []}", "", "", `at '/dns/zones': minItems: got 0, want 1`},
		{"a TTL of a day", "dns: {ttl: 86400}", "", "", `at '/dns/ttl': maximum: got 86,400, want 3,600`},
		{"no address", "dns: {service: {clusterIP: 10.96.0.1000}}", "", "", `'10.96.0.1000' is not valid ipv4`},
		{"unknown distribution", "dns: {service: {trafficDistribution: PreferZone}}", "", "", `at '/dns/service/trafficDistribution': value must be one of '', 'PreferSameZone'`},
		{"unknown data path", "member: {dataPath: tunnels}", "", "", `at '/member/dataPath': value must be one of 'pods', 'clusterips', 'none'`},
		{"unknown log level", "hub: {logLevel: loud}", "", "", `at '/hub/logLevel': value must be one of 'debug', 'info', 'warn', 'error'`},
		{"a port too high", "networkPolicy: {apiServerPorts: [70000]}", "", "", `at '/networkPolicy/apiServerPorts/0': maximum: got 70,000, want 65,535`},
		{"unknown policy", "hub: {admissionPolicy: {strict: true}}", "", "", `at '/hub/admissionPolicy': additional properties 'strict' not allowed`},
		{"resources beside limits", "dns: {resources: {memory: 1Gi}}", "", "", `at '/dns/resources': additional properties 'memory' not allowed`},
		{"an empty key", "member: {excludeNamespaces: }", "", "", `at '/member': missing property 'excludeNamespaces'`},
		{"a key with a quote", "member: {admissionPolicy: {allowedKeys: [\"a'b\"]}}", "", "", `at '/member/admissionPolicy/allowedKeys/0': 'a\'b' does not match pattern`},

		// Wrong formats.
		{"cluster name", "location: {cluster: Bei_jing}", "", "", `location.cluster is "Bei_jing"; want the cluster's name in the set, a DNS label`},
		{"namespace", "dns: {namespaces: [team-*]}", "", "", `dns.namespaces has "team-*"; want names of namespaces`},
		{"pattern of namespaces", "member: {exportNamespaces: [shop, Team-*]}", "", "", `member.exportNamespaces has "Team-*"; want names of namespaces, or patterns such as team-*`},
		{"empty pattern", "member: {excludeExportNamespaces: [\"\"]}", "", "", `member.excludeExportNamespaces has ""; want names of namespaces`},
		{"network", "networkPolicy: {apiServerCIDRs: [192.0.2.10]}", "", "", `networkPolicy.apiServerCIDRs has "192.0.2.10"; want networks such as 192.0.2.0/24`},
		{"digest", "image: {digest: latest}", "", "", `image.digest is "latest"; want sha256:`},
		{"duration", "hub: {enabled: true, expireAfter: 5 minutes}", "", "", `hub.expireAfter is "5 minutes"; want a duration such as 40s, 5m or 24h`},
		{"age", "dns: {snapshot: {enabled: true, maxAge: 1 day}}", "", "", `dns.snapshot.maxAge is "1 day"; want a duration such as 40s, 5m or 24h`},
		{"zone", "dns: {zones: [Global.]}", "", "", `dns.zones has "Global."; want lower-case DNS names without a trailing dot`},

		// Contradictions.
		{"nothing that has addresses", "member: {dataPath: none, skipGlobalServices: true}", "", "", `member.dataPath is none and member.skipGlobalServices is true, so no name would have an address; set member.dataPath to pods or clusterips, or member.skipGlobalServices to false`},
		{"nothing", "{dns: {enabled: false}, member: {enabled: false}, crds: {enabled: false}}", "", "", `nothing to install: set one of dns.enabled, member.enabled, hub.enabled and crds.enabled`},
		{"none beside a tier", "prefer: [none, zone]", "", "", `none can't be combined with tiers`},
		{"prefer an unknown cluster", "prefer: [cluster, zone]", "", "", `location.cluster is empty; set it to this cluster's name in the set`},
		{"within an unknown cluster", "boundary: cluster", "", "", `location.cluster is empty; set it to this cluster's name in the set`},
		{"within an unknown zone", "{boundary: zone, location: {fromNode: false}}", "", "", `boundary is zone, but location.zone is empty and location.fromNode is false, so no endpoint would be within it`},
		{"within a zone that the cluster doesn't tell", "boundary: zone", "", "v1.34.2", `Kubernetes v1.34.2 doesn't copy topology labels to pods (1.35 does); set location.zone`},
		{"standalone without a Service", "dns: {service: {create: false}}", "", "", `dns.service.create is false, but in dns.mode standalone the cluster DNS needs a Service to forward to`},
		{"cluster DNS without an address", "dns: {mode: clusterDNS}", "", "", `needs dns.service.clusterIP: the address that kubelets give to pods`},
		{"cluster DNS in the wrong namespace", "dns: {mode: clusterDNS, service: {create: false}}", "", "", `finds its pods in kube-system only, not in clusterset-system; install with --namespace kube-system`},
		{"cluster DNS that hides the cluster", "dns: {mode: clusterDNS, zones: [cluster.local], service: {create: false}}", "kube-system", "", `dns.zones has cluster.local, which is dns.clusterDNS.domain`},
		{"thresholds the wrong way round", "hub: {enabled: true, suspectAfter: 10m}", "", "", `hub.suspectAfter (10m), hub.expireAfter (5m) and hub.forgetAfter (24h) must increase in this order`},
		{"admission policies of an older cluster", "hub: {enabled: true}", "", "v1.30.4", `hub.admissionPolicy.enabled needs Kubernetes 1.31, whose policies can check networks; this is v1.30.4`},
		{"members without an address", "hub: {enabled: true, manageMembers: true}", "", "", `hub.server is ""; with hub.manageMembers it must be the URL at which members reach the hub's API server`},
		{"members with half an address", "hub: {enabled: true, manageMembers: true, server: hub.example.com}", "", "", `hub.server is "hub.example.com"; with hub.manageMembers it must be the URL`},
		{"members that nobody makes", "hub: {enabled: true, members: [{name: beijing}]}", "", "", `hub.members is set, but hub.manageMembers is false; set it to true`},
		{"a member's name", "hub: {enabled: true, manageMembers: true, server: 'https://hub:6443', members: [{name: Bei_jing}]}", "", "", `hub.members has the name "Bei_jing"; want a cluster's name in the set`},
		{"a member twice", "hub: {enabled: true, manageMembers: true, server: 'https://hub:6443', members: [{name: a}, {name: a}]}", "", "", `hub.members has the name a twice`},
		{"a member's network", "hub: {enabled: true, manageMembers: true, server: 'https://hub:6443', members: [{name: a, cidrs: [ten]}]}", "", "", `hub.members has the network "ten"; want networks such as 10.1.0.0/16`},
		{"a member's community", "hub: {enabled: true, members: [{name: a, communities: [payments, 'Edge Asia']}]}", "", "", `at '/hub/members/0/communities/1': 'Edge Asia' does not match pattern`},
		{"a member's community twice", "hub: {enabled: true, members: [{name: a, communities: [a, a]}]}", "", "", `at '/hub/members/0/communities': items at 0 and 1 are equal`},
		{"a member of what isn't known", "hub: {enabled: true, members: [{name: a, community: x}]}", "", "", `at '/hub/members/0': additional properties 'community' not allowed`},
		{"a stricter policy that is off", "hub: {enabled: true, admissionPolicy: {enabled: false, requireCIDRs: true}}", "", "", `hub.admissionPolicy.requireCIDRs is true, but hub.admissionPolicy.enabled is false; set both to true, or neither`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{"clusterset", "clusterset-system", c.values, newest}
			if c.namespace != "" {
				o.Namespace = c.namespace
			}
			if c.kube != "" {
				o.KubeVersion = c.kube
			}
			_, err := Render(chartDir, o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\ngot  %v\nwant %s", c.values, err, c.want)
			}
		})
	}
}
