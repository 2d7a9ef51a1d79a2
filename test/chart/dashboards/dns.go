package dashboards

func dns() *Dashboard {
	d := newDashboard("clusterset-dns", "clusterset / DNS",
		"What the DNS servers answer, how fast, from how near, and how fresh what they know is.", "coredns_clusterset_source_synced")
	d.Templating.List = append(d.Templating.List, values("zone", "Zone", `coredns_dns_requests_total{cluster=~"$cluster", job=~"$job"}`))
	d.row("Now",
		stat("Servers", "DNS servers that are scraped.", "none", q("", `count(count by (cluster, instance) (coredns_clusterset_source_synced{SEL}))`)).
			from("red", 1.0, "orange", 2.0, "green"),
		stat("Queries", "Queries of the zones chosen, in all servers.", "reqps", q("", `sum(rate(coredns_dns_requests_total{SEL, zone=~"$zone"}[RATE]))`)),
		stat("SERVFAIL", "Share of the clusterset plugin's answers that are SERVFAIL: a server has not read its objects yet.", "percentunit",
			q("", `sum(rate(coredns_dns_responses_total{SEL, zone=~"$zone", plugin="clusterset", rcode="SERVFAIL"}[RATE])) / sum(rate(coredns_dns_responses_total{SEL, zone=~"$zone", plugin="clusterset"}[RATE])) or vector(0)`)).
			from("green", 0.001, "orange", 0.01, "red"),
		stat("Latency", "99 of 100 queries are answered in less.", "s",
			q("", `histogram_quantile(0.99, sum by (le) (rate(coredns_dns_request_duration_seconds_bucket{SEL, zone=~"$zone"}[RATE])))`)).
			from("green", 0.01, "orange", 0.1, "red"),
		stat("Last resort", "Share of the answers with endpoints of clusters that are silent or drained, because there are no others.", "percentunit",
			q("", `sum(rate(coredns_clusterset_answers_total{SEL, tier="degraded"}[RATE])) / sum(rate(coredns_clusterset_answers_total{SEL}[RATE])) or vector(0)`)).
			from("green", 0.001, "orange", 0.05, "red"),
		stat("Not watched", "Kinds of objects that some server isn't watching although the API server has them. It answers what it knew last.", "none",
			q("", `count((coredns_clusterset_source_synced{SEL} == 0) unless (coredns_clusterset_source_absent{SEL} == 1)) or vector(0)`)).
			from("green", 1.0, "red"),
	)
	d.row("Queries and answers",
		graph("Queries by type", "What is asked.", "reqps", 12,
			q("{{type}}", `sum by (type) (rate(coredns_dns_requests_total{SEL, zone=~"$zone"}[RATE]))`)).stacked("normal"),
		graph("Answers by code", "What the clusterset plugin answers. NXDOMAIN is usual, as clients try their search path; SERVFAIL isn't.", "reqps", 12,
			q("{{rcode}}", `sum by (rcode) (rate(coredns_dns_responses_total{SEL, zone=~"$zone", plugin="clusterset"}[RATE]))`)).
			stacked("normal").colour("NOERROR", "green", "NXDOMAIN", "blue", "SERVFAIL", "red"),
		graph("Answers by tier", "How near the endpoints were that positive answers named: the own cluster, zone or region, any, a ClusterSetIP (vip), or only those of silent or drained clusters (degraded).", "percentunit", 12,
			q("{{tier}}", `sum by (tier) (rate(coredns_clusterset_answers_total{SEL}[RATE]))`)).
			stacked("percent").colour("cluster", "dark-green", "zone", "green", "region", "yellow", "any", "orange", "vip", "blue", "degraded", "red"),
		graph("Queries by server", "Whether clients are spread over the servers.", "reqps", 12,
			q("{{instance}}", `sum by (instance) (rate(coredns_dns_requests_total{SEL, zone=~"$zone"}[RATE]))`)),
		graph("Latency", "How long a server takes for a query, the network to the client not included.", "s", 12,
			q("p50", `histogram_quantile(0.5, sum by (le) (rate(coredns_dns_request_duration_seconds_bucket{SEL, zone=~"$zone"}[RATE])))`),
			q("p90", `histogram_quantile(0.9, sum by (le) (rate(coredns_dns_request_duration_seconds_bucket{SEL, zone=~"$zone"}[RATE])))`),
			q("p99", `histogram_quantile(0.99, sum by (le) (rate(coredns_dns_request_duration_seconds_bucket{SEL, zone=~"$zone"}[RATE])))`)).
			from("transparent", 0.1, "red"),
		graph("Latency by server", "99 of 100 queries are answered in less.", "s", 12,
			q("{{instance}}", `histogram_quantile(0.99, sum by (instance, le) (rate(coredns_dns_request_duration_seconds_bucket{SEL, zone=~"$zone"}[RATE])))`)),
	)
	d.row("What the servers know",
		timeline("Watching", "Whether each server is watching each kind, or has nothing to watch because its CustomResourceDefinition isn't installed. While it isn't, it answers what it knew last.", 12, 8, yesNo,
			q("{{instance}} {{kind}}", `max by (instance, kind) (coredns_clusterset_source_synced{SEL})`)),
		graph("Objects", "Objects held, by kind; of several servers the one that holds most.", "short", 12,
			q("{{kind}}", `max by (kind) (coredns_clusterset_objects{SEL})`)),
		graph("Servers that differ", "How many more objects the server that holds most has than the one that holds least, within a cluster. More than a moment above 0, and one of them is behind.", "short", 8,
			q("{{cluster}} {{kind}}", `max by (cluster, kind) (coredns_clusterset_objects{SEL}) - min by (cluster, kind) (coredns_clusterset_objects{SEL})`)),
		graph("Failed reads", "Lists and watches of the API server, and files, that failed.", "ops", 8,
			q("{{kind}}", `sum by (kind) (rate(coredns_clusterset_source_errors_total{SEL}[RATE]))`)),
		graph("Invalid objects", "Objects that arrived with a field that can't be served. The rest of each is served.", "short", 8,
			q("{{kind}}", `sum by (kind) (increase(coredns_clusterset_invalid_objects_total{SEL}[RATE]))`)),
		timeline("From a state file", "Whether a server answers from its state file, because it has not reached the API server since it started. Only of servers that have one.", 12, 8,
			map[string]Word{"0": {"no", "green", 0}, "1": {"yes", "orange", 1}},
			q("{{instance}} {{source}}", `max by (instance, source) (coredns_clusterset_source_stale{SEL})`)),
		graph("State files", "Reads and writes of state files that failed. A refused file is too old, of other options, or broken; the log says which.", "short", 12,
			q("writes: {{result}}", `sum by (result) (increase(coredns_clusterset_state_file_writes_total{SEL, result="error"}[RATE]))`),
			q("reads: {{result}}", `sum by (result) (increase(coredns_clusterset_state_file_reads_total{SEL, result="refused"}[RATE]))`)),
		graph("From change to answer", "How long it takes from a pod's or Service's change, in whichever cluster, until queries see it here. The clusters' clocks must agree.", "s", 8,
			q("p50", `histogram_quantile(0.5, sum by (le) (rate(coredns_clusterset_programming_duration_seconds_bucket{SEL}[RATE])))`),
			q("p99", `histogram_quantile(0.99, sum by (le) (rate(coredns_clusterset_programming_duration_seconds_bucket{SEL}[RATE])))`)).
			from("transparent", 30.0, "red"),
		graph("From event to answer", "How long it takes from the arrival of a watch event until queries see it.", "s", 8,
			q("p50", `histogram_quantile(0.5, sum by (le) (rate(coredns_clusterset_apply_duration_seconds_bucket{SEL}[RATE])))`),
			q("p99", `histogram_quantile(0.99, sum by (le) (rate(coredns_clusterset_apply_duration_seconds_bucket{SEL}[RATE])))`)).
			from("transparent", 1.0, "red"),
		graph("Changes", "Watch events that each server takes in. Servers of one cluster take in the same.", "ops", 8,
			q("{{instance}}", `sum by (instance) (rate(coredns_clusterset_apply_duration_seconds_count{SEL}[RATE]))`)),
	)
	d.processes()
	d.place(graph("Panics", "Panics that CoreDNS recovered from. Any is a bug.", "short", 24,
		q("{{instance}}", `increase(coredns_panics_total{SEL}[RATE])`)))
	return d
}
