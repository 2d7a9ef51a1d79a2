// A cluster's details beside the map, and what could be done with it.
import { html, useRef } from "./html.js";
import { here, to } from "./address.js";
import { Age, Icon, Phase, Tag, Toggles } from "./parts.js";
import { useApi } from "./live.js";
import { count } from "./words.js";

export function Cluster({ c, map, changes }) {
  const at = c.after ?? c;
  const source = map.sources.find((s) => s.role === "member" && s.cluster === c.name);
  return html`<aside class="panel" aria-label=${`Cluster ${c.name}`}>
    <div class="panelhead"><h2>${c.name}</h2><a class="close" data-close href=${here({ cluster: null })} aria-label="Close the details"><${Icon} name="cross" /></a></div>
    <p class="tags"><${Phase} phase=${c.phase} />${c.drain && html`<${Tag} icon="drain" tone="warn">drained<//>`}${c.limited && html`<${Tag} icon="limited" tone="warn">limited<//>`}</p>
    ${c.message && html`<p>${c.message}</p>`}
    <dl class="facts">
      <${Fact} name="Last heartbeat">${c.lastHeartbeat ? html`<${Age} time=${c.lastHeartbeat} />` : c.phase === "Unknown" ? "never" : "unknown"}<//>
      <${Fact} name="Region" was=${c.region || "unknown"} is=${at.region || "unknown"} />
      <${Fact} name="Zones" was=${zones(c)} is=${zones(at)} />
      <${Fact} name="Communities" was=${communities(c)} is=${communities(at)} />
      ${(c.network || at.network) && html`<${Fact} name="Network" was=${c.network || "without a name"} is=${at.network || "without a name"} />`}
      <${Fact} name="Clients in zones">${c.places.filter(Boolean).join(", ") || "unknown"}<//>
      ${(c.cantReach || at.cantReach) && html`<${Fact} name="Can't reach" was=${c.cantReach?.join(", ") ?? "none"} is=${at.cantReach?.join(", ") ?? "none"} />`}
      <${Fact} name="Exports"><a href=${to("services", [], { cluster: c.name })}>${count(c.exports ?? 0, "service")}</a><//>
      <${Fact} name="Agent">${c.agentVersion ?? "version unknown"}<//>
      ${c.weight !== undefined && html`<${Fact} name="Weight">${c.weight}<//>`}
      ${c.cidrs?.length > 0 && html`<${Fact} name="CIDRs">${c.cidrs.join(", ")}<//>`}
      ${(c.externalCIDRs ?? at.externalCIDRs) && html`<${Fact} name="External CIDRs" was=${c.externalCIDRs?.join(", ") ?? "none"} is=${at.externalCIDRs?.join(", ") ?? "none"} />`}
      ${source && html`<${Fact} name="Read from">context ${source.context} (${source.state})<//>`}
    </dl>
    ${source && html`<${Traffic} context=${source.context} />`}
    <h3>What if</h3>
    <div class="actions">
      <${Toggles} c=${c} changes=${changes} kind="button" kinds=${[["down", "power"], c.drain ? ["undrain", "undrain"] : ["drain", "drain"], ["leave", "left"]]} />
      ${[["unreachable", "cut"], ["place", "move"], ["communities", "group"], ["network", "network"]].map(([kind, icon]) => html`
        <a key=${kind} class="button" href=${to("whatif", [], { kind, cluster: c.name })}><${Icon} name=${icon} /> ${kind}…</a>`)}
    </div>
  </aside>`;
}

const tiers = {
  cluster: "endpoints of its own cluster", zone: "endpoints of its zone", region: "endpoints of its region", any: "endpoints anywhere", vip: "a ClusterSetIP",
  degraded: "the last resort: only silent, drained and unreachable clusters are left",
};

// What the cluster's DNS servers answer, and how often between the last two readings: those of servers that haven't started anew since.
function Traffic({ context }) {
  const { data, error } = useApi(`api/traffic?context=${encodeURIComponent(context)}`, { key: context });
  const readings = useRef([]);
  if (data && data.at !== readings.current[0]?.at) readings.current = [data, readings.current[0]];
  const before = readings.current[1];
  if (!data) return error ? html`<h3>Answers</h3><p class="faint">${error}</p>` : null;
  const seconds = before ? (Date.parse(data.at) - Date.parse(before.at)) / 1000 : 0;
  const servers = Object.entries(data.answers), found = {};
  for (const [server, answers] of servers) {
    for (const [tier, n] of Object.entries(answers)) {
      const sum = (found[tier] ??= { total: 0, perSecond: 0 }), was = before?.answers[server];
      sum.total += n;
      if (was) sum.perSecond += Math.max(0, n - (was[tier] ?? 0)) / seconds;
    }
  }
  const all = Object.entries(found).sort(), sum = all.reduce((n, [, t]) => n + t.total, 0);
  return html`<h3>Answers</h3>
    <p class="faint">${servers.length === 0 ? "No DNS server of clusterset was read" : `Names answered with addresses by ${count(servers.length, "DNS server")}`}${seconds > 0 && `, per second in the last ${Math.round(seconds)} s`}${servers.length > 0 && ", and since they started"}.</p>
    ${all.length > 0 && html`<dl class="facts traffic">${all.map(([tier, t]) => html`<${Fact} key=${tier} name=${tiers[tier] ?? tier}>${seconds > 0 && `${rate(t.perSecond)}/s, `}${t.total} (${Math.round(100 * t.total / (sum || 1))} %)<//>`)}</dl>`}
    ${data.unread?.map((u) => html`<p key=${u} class="faint">Not read: ${u}</p>`)}`;
}

const rate = (n) => (n >= 10 || n === 0 ? Math.round(n) : n.toFixed(1));

const communities = (c) => c.communities?.join(", ") || "default";
const zones = (c) => (c.zones?.length ? c.zones.join(", ") : c.zone) || "unknown";

function Fact({ name, was, is, children }) {
  return html`<div><dt>${name}</dt><dd>${was === undefined ? children : was === is ? is : html`<s>${was}</s> <ins>${is}</ins>`}</dd></div>`;
}
