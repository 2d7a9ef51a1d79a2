package dashboards

func hub() *Dashboard {
	d := newDashboard("clusterset-hub", "clusterset / Hub",
		"Which members are there, how long each has been silent, and how the hub process is.", "clusterset_hub_expiry_paused")
	phases := map[string]Word{"0": {"Unknown", "gray", 0}, "1": {"Ready", "green", 1}, "2": {"Suspect", "orange", 2}, "3": {"Expired", "red", 3}}
	const phase = `max by (cluster, member) (clusterset_hub_member_phase{SEL, phase="Ready"})` +
		` + 2 * max by (cluster, member) (clusterset_hub_member_phase{SEL, phase="Suspect"})` +
		` + 3 * max by (cluster, member) (clusterset_hub_member_phase{SEL, phase="Expired"})`
	count := func(phase string) query {
		return q("", `max(clusterset_hub_members{SEL, phase="`+phase+`"})`)
	}
	d.row("Now",
		stat("Ready", "Members that send heartbeats.", "none", count("Ready")),
		stat("Suspect", "Members that have been silent for a while (40 s). Their endpoints are used last.", "none", count("Suspect")).from("green", 1.0, "orange"),
		stat("Expired", "Members that have been silent for long (5 min). Their endpoints are not answered.", "none", count("Expired")).from("green", 1.0, "red"),
		stat("Unknown", "Members that have joined and never sent a heartbeat.", "none", count("Unknown")).from("green", 1.0, "blue"),
		stat("Longest silence", "Of the member that was heard last of all.", "s",
			q("", `max(time() - max by (cluster, member) (clusterset_hub_member_last_heartbeat_timestamp_seconds{SEL} > 0))`)).
			from("green", 40.0, "orange", 300.0, "red"),
		stat("Expiry paused", "Most members are silent together: the hub takes itself for cut off and lets none expire.", "none",
			q("", `max(clusterset_hub_expiry_paused{SEL})`)).from("green", 1.0, "red").words(map[string]Word{"0": {"no", "green", 0}, "1": {"yes", "red", 1}}),
	)
	d.row("Members",
		timeline("Phases", "The phase of each member.", 24, 10, phases, q("{{cluster}} {{member}}", phase)),
		graph("Silence", "Time since each member's last heartbeat was seen.", "s", 12,
			q("{{member}}", `time() - max by (cluster, member) (clusterset_hub_member_last_heartbeat_timestamp_seconds{SEL} > 0)`)).
			from("transparent", 40.0, "orange", 300.0, "red"),
		graph("Members by phase", "How many there are.", "short", 12,
			q("{{phase}}", `max by (phase) (clusterset_hub_members{SEL})`)).
			stacked("normal").colour("Ready", "green", "Suspect", "orange", "Expired", "red", "Unknown", "gray"),
		graph("Changes of phase", "By the phase that a member changed to. One that goes to and fro is on a bad line.", "short", 12,
			q("{{phase}}", `sum by (phase) (increase(clusterset_hub_phase_changes_total{SEL}[RATE]))`)).
			colour("Ready", "green", "Suspect", "orange", "Expired", "red"),
		graph("Forgotten", "Members whose records were deleted because they had been silent for too long (24 h).", "short", 12,
			q("forgotten", `sum(increase(clusterset_hub_members_forgotten_total{SEL}[RATE]))`)),
	)
	d.controllers("The hub process")
	d.processes()
	return d
}

// words shows words in the place of numbers.
func (p *Panel) words(words map[string]Word) *Panel {
	p.FieldConfig.Defaults.Mappings = []Mapping{{"value", words}}
	return p
}
