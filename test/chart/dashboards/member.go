package dashboards

func member() *Dashboard {
	d := newDashboard("clusterset-member", "clusterset / Members",
		"What the members' agents export and import, how they stand with the hub, and how long a change takes.", "clusterset_exporter_first_pass_done")
	// Of an agent's replicas one works and the others show zeros, so everything that isn't a rate is the most of a cluster's.
	d.row("Now",
		stat("Silence", "The longest time since a cluster's last heartbeat. After 40 seconds the others use its endpoints last, after five minutes not at all.", "s",
			q("", `max(time() - max by (cluster, job) (clusterset_exporter_last_heartbeat_timestamp_seconds{SEL} > 0))`)).
			from("green", 30.0, "orange", 40.0, "red"),
		stat("Hub read", "Clusters whose agent has read the hub, of all.", "percentunit",
			q("", `avg(max by (cluster, job) (clusterset_importer_hub_synced{SEL}))`)).from("red", 1.0, "green"),
		stat("Token", "What is left of the token for the hub that expires first. Tokens live for 14 days and are renewed after seven.", "s",
			q("", `min(max by (cluster, job) (clusterset_hub_token_expiry_timestamp_seconds{SEL} > 0)) - time()`)).
			from("red", 3*24*3600.0, "orange", 6*24*3600.0, "green"),
		stat("Exported", "Services exported, in all clusters.", "none",
			q("", `sum(max by (cluster, job) (clusterset_exporter_services{SEL, state="exported"}))`)),
		stat("Conflicts", "ServiceExports that differ from another cluster's of the same name; their Conflict condition says in what.", "none",
			q("", `sum(max by (cluster, job) (clusterset_exporter_conflicts{SEL}))`)).from("green", 1.0, "orange"),
		stat("Not imported", "Services that are held back, failed, or have an object of someone else's in their way.", "none",
			q("", `sum(max by (cluster, job, state) (clusterset_importer_services{SEL, state=~"failed|foreign|held"}))`)).from("green", 1.0, "red"),
	)
	d.row("Connection to the hub",
		graph("Silence", "Time since the last heartbeat.", "s", 12,
			q("{{cluster}} {{job}}", `time() - max by (cluster, job) (clusterset_exporter_last_heartbeat_timestamp_seconds{SEL} > 0)`)).
			from("transparent", 40.0, "orange", 300.0, "red"),
		graph("Heartbeats", "Renewals of the cluster's Lease on the hub, by result.", "ops", 12,
			q("{{result}}", `sum by (result) (rate(clusterset_exporter_heartbeats_total{SEL}[RATE]))`)).colour("ok", "green", "error", "red"),
		timeline("Hub read", "Whether the hub's records have been read since the agent started.", 8, 6, yesNo,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_importer_hub_synced{SEL})`)),
		timeline("First pass done", "Whether everything exported has been compared with the hub since the agent started. Until then it sends no heartbeat.", 8, 6, yesNo,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_first_pass_done{SEL})`)),
		timeline("Name taken", "Whether another cluster works under this one's name, so that nothing is exported.", 8, 6,
			map[string]Word{"0": {"no", "green", 0}, "1": {"yes", "red", 1}},
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_name_taken{SEL})`)),
		graph("Token's rest", "What is left of the token for the hub.", "s", 12,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_hub_token_expiry_timestamp_seconds{SEL} > 0) - time()`)).
			from("red", 3*24*3600.0, "transparent"),
		graph("Renewals of the token", "Attempts to renew it, by result.", "short", 12,
			q("{{result}}", `sum by (result) (increase(clusterset_hub_token_renewals_total{SEL}[RATE]))`)).colour("ok", "green", "error", "red"),
	)
	d.row("Export",
		graph("Services exported", "By what became of them: exported, refused (their conditions say why), failed (the hub said no), pending (the hub can't be reached).", "short", 8,
			q("{{state}}", `sum by (state) (max by (cluster, job, state) (clusterset_exporter_services{SEL}))`)).
			colour("exported", "green", "refused", "orange", "failed", "red", "pending", "yellow"),
		graph("Endpoints exported", "Endpoints on the hub, ready or not.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_endpoints{SEL})`)),
		graph("Conflicts", "ServiceExports that differ from another cluster's of the same name.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_conflicts{SEL})`)),
		graph("Writes to the hub", "Writes of records, by verb and result. Where nothing changes there are none.", "ops", 8,
			q("{{verb}} {{result}}", `sum by (verb, result) (rate(clusterset_exporter_hub_writes_total{SEL}[RATE]))`)),
		graph("Left out", "Ports, addresses, labels and the like of exported Services that can't be exported.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_left_out_values{SEL})`)),
		graph("First pass", "Services that are yet to be compared with the hub after a start.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_exporter_first_pass_pending_services{SEL})`)),
	)
	d.row("Import",
		graph("Services imported", "By what became of them: imported, foreign (an object of someone else's is in the way), no_namespace, excluded, capped (its cluster exports too many), held (the hub can't be trusted to be complete), failed.", "short", 8,
			q("{{state}}", `sum by (state) (max by (cluster, job, state) (clusterset_importer_services{SEL}))`)).
			colour("imported", "green", "foreign", "orange", "no_namespace", "blue", "excluded", "gray", "capped", "purple", "held", "red", "failed", "dark-red"),
		graph("Writes to the own API server", "Writes by kind and verb. Where nothing changes there are none.", "ops", 8,
			q("{{kind}} {{verb}}", `sum by (kind, verb) (rate(clusterset_importer_writes_total{SEL}[RATE]))`)),
		graph("Objects in the way", "Objects of someone else's where the importer would have written its own.", "short", 8,
			q("{{kind}}", `sum by (kind) (max by (cluster, job, kind) (clusterset_importer_foreign_objects{SEL}))`)),
		graph("Dropped values", "Parts of records that can't be imported, by the member that exported them.", "short", 8,
			q("{{member}}", `sum by (member) (increase(clusterset_importer_dropped_values_total{SEL}[RATE]))`)),
		graph("Clusters awaited", "Clusters that the hub has lost and that haven't joined it again. What they exported is kept for a while.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_importer_awaited_clusters{SEL})`)),
		graph("Truncated endpoints", "Endpoints that found no room in their GlobalService, which holds 4,096.", "short", 8,
			q("{{cluster}} {{job}}", `max by (cluster, job) (clusterset_importer_truncated_endpoints{SEL})`)),
	)
	d.controllers("How long a change takes")
	d.processes()
	return d
}
