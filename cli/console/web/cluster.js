// A cluster's details beside the map, and what could be done with it.
import { html } from "./html.js";
import { here, to } from "./address.js";
import { Age, Icon, Phase, Tag, Toggles } from "./parts.js";
import { count } from "./words.js";

export function Cluster({ c, map, changes }) {
  const at = c.after ?? c;
  const source = map.sources.find((s) => s.role === "member" && s.cluster === c.name);
  return html`<aside class="panel" aria-label=${`Cluster ${c.name}`}>
    <div class="panelhead"><h2>${c.name}</h2><a class="close" data-close href=${here({ cluster: null })} aria-label="Close the details"><${Icon} name="cross" /></a></div>
    <p class="tags"><${Phase} phase=${c.phase} />${c.drain && html`<${Tag} icon="drain" tone="warn">drained<//>`}${c.flaws?.includes("Limited") && html`<${Tag} icon="limited" tone="warn">limited<//>`}</p>
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
    <h3>What if</h3>
    <div class="actions">
      <${Toggles} c=${c} changes=${changes} kind="button" kinds=${[["down", "power"], c.drain ? ["undrain", "undrain"] : ["drain", "drain"], ["leave", "left"]]} />
      ${[["unreachable", "cut"], ["place", "move"]].map(([kind, icon]) => html`
        <a key=${kind} class="button" href=${to("whatif", [], { kind, cluster: c.name })}><${Icon} name=${icon} /> ${kind}…</a>`)}
    </div>
  </aside>`;
}

const communities = (c) => c.communities?.join(", ") || "default";
const zones = (c) => c.zones?.join(", ") || "unknown";

function Fact({ name, was, is, children }) {
  return html`<div><dt>${name}</dt><dd>${was === undefined ? children : was === is ? is : html`<s>${was}</s> <ins>${is}</ins>`}</dd></div>`;
}
