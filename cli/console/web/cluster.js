// A cluster's details beside the map, and what could be done with it.
import { html } from "./html.js";
import { go, here, to } from "./address.js";
import { has, toWords, withCluster } from "./changes.js";
import { Age, Icon, Phase, Tag } from "./parts.js";
import { count } from "./words.js";

export function Cluster({ c, map, changes }) {
  const at = c.after ?? c;
  const source = map.sources.find((s) => s.role === "member" && s.cluster === c.name);
  const toggle = (kind) => here({ if: withCluster(changes, kind, c.name).map(toWords) });
  const actions = [
    ["down", "power", "down"], c.drain ? ["undrain", "undrain", "undrain"] : ["drain", "drain", "drain"], ["leave", "left", "leave"],
  ];
  return html`<aside class="panel" aria-label=${`Cluster ${c.name}`}>
    <div class="panelhead"><h2>${c.name}</h2><a class="close" data-close href=${here({ cluster: null })} aria-label="Close the details"><${Icon} name="cross" /></a></div>
    <p class="tags"><${Phase} phase=${c.phase} />${c.drain && html`<${Tag} icon="drain" tone="warn">drained<//>`}${c.cloned && html`<${Tag} icon="conflict" tone="bad">cloned<//>`}${c.limited && html`<${Tag} icon="limited" tone="warn">limited<//>`}</p>
    ${c.message && html`<p>${c.message}</p>`}
    <dl class="facts">
      <${Fact} name="Last heartbeat">${c.lastHeartbeat ? html`<${Age} time=${c.lastHeartbeat} />` : c.phase === "Unknown" ? "never" : "unknown"}<//>
      <${Fact} name="Region" was=${c.region || "unknown"} is=${at.region || "unknown"} />
      <${Fact} name="Zones" was=${zones(c)} is=${zones(at)} />
      <${Fact} name="Communities" was=${communities(c)} is=${communities(at)} />
      ${(c.network || at.network) && html`<${Fact} name="Network" was=${c.network || "without a name"} is=${at.network || "without a name"} />`}
      <${Fact} name="Clients in zones">${c.places.filter(Boolean).join(", ") || "unknown"}<//>
      <${Fact} name="Exports"><a href=${to("services", [], { cluster: c.name })}>${count(c.exports ?? 0, "service")}</a><//>
      <${Fact} name="Agent">${c.agentVersion ?? "version unknown"}<//>
      ${c.weight !== undefined && html`<${Fact} name="Weight">${c.weight}<//>`}
      ${c.cidrs?.length > 0 && html`<${Fact} name="CIDRs">${c.cidrs.join(", ")}<//>`}
      ${(c.externalCIDRs ?? at.externalCIDRs) && html`<${Fact} name="External CIDRs" was=${c.externalCIDRs?.join(", ") ?? "none"} is=${at.externalCIDRs?.join(", ") ?? "none"} />`}
      ${source && html`<${Fact} name="Read from">context ${source.context} (${source.state})<//>`}
    </dl>
    <h3>What if</h3>
    <div class="actions">
      ${actions.map(([kind, icon, text]) => html`<a key=${kind} class="button" role="button" aria-pressed=${has(changes, kind, c.name) ? "true" : "false"} href=${toggle(kind)}><${Icon} name=${icon} /> ${text}</a>`)}
      <a class="button" href=${to("whatif", [], { kind: "unreachable", cluster: c.name })}><${Icon} name="cut" /> unreachable…</a>
      <a class="button" href=${to("whatif", [], { kind: "place", cluster: c.name })}><${Icon} name="move" /> place…</a>
      <a class="button" href=${to("whatif", [], { kind: "communities", cluster: c.name })}><${Icon} name="group" /> communities…</a>
      <a class="button" href=${to("whatif", [], { kind: "network", cluster: c.name })}><${Icon} name="network" /> network…</a>
    </div>
  </aside>`;
}

const communities = (c) => c.communities?.join(", ") || "default";
const zones = (c) => (c.zones?.length ? c.zones.join(", ") : c.zone) || "unknown";

function Fact({ name, was, is, children }) {
  return html`<div><dt>${name}</dt><dd>${was === undefined ? children : was === is ? is : html`<s>${was}</s> <ins>${is}</ins>`}</dd></div>`;
}
