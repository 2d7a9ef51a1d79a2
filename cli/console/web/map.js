// The map: clusters in their zones and regions.
import { html, useMemo, useRef } from "./html.js";
import { go, here, to } from "./address.js";
import { Age, Icon, Outcome, Press, Search, Table, Tag } from "./parts.js";
import { useRoving } from "./rows.js";
import { count, phases, sourceName } from "./words.js";
import { Cluster } from "./cluster.js";

const many = 60; // with more clusters, a tile has one line

export function MapView({ address, map, problems, changes, parameter }) {
  const { params } = address;
  const find = (params.get("find") ?? "").toLowerCase();
  const only = params.get("only") ?? "";
  const clusters = map.data?.clusters ?? [];
  const community = params.get("community") ?? "";
  const communities = useMemo(() => [...new Set(clusters.flatMap(communitiesOf))].sort(), [map.data]);
  const shown = useMemo(() => clusters.filter((c) => c.name.includes(find) && is(c, only) && (!community || communitiesOf(c).includes(community))), [map.data, find, only, community]);
  const regions = useMemo(() => arrange(shown), [shown]);
  const networks = clusters.some((c) => c.network || c.after?.network);
  const usual = useMemo(() => mostCommon(clusters.map((c) => c.agentVersion)), [map.data]);
  const ref = useRef();
  const roving = useRoving(ref, shown.length);
  if (!map.data) return html`<h1 tabindex="-1">Map</h1><${Outcome} got=${map} what="the clusters" />`;

  const chosen = clusters.find((c) => c.name === params.get("cluster"));
  const dense = clusters.length > many;
  let i = -1;
  const zones = new Set(clusters.flatMap((c) => c.places.filter(Boolean)));
  return html`
    <div class="viewhead">
      <h1 tabindex="-1">Map</h1>
      <p class="lead">${count(clusters.length, "cluster")} in ${count(new Set(clusters.map((c) => c.region).filter(Boolean)).size, "region")} and ${count(zones.size, "zone")},
        ${" "}<a href=${to("services")}>${count(map.data.services.total, "service")}</a>${map.data.services.conflicts > 0 && html`, <a href=${to("services", [], { conflicts: "1" })}>${map.data.services.conflicts} in conflict</a>`}${usual && html`. Usual version: ${usual}`}</p>
    </div>
    <div class="bar">
      <${Search} label="Find a cluster" params=${params} />
      ${(communities.length > 1 || community) && html`<label class="select">Community <select name="community" onChange=${(e) => go(here({ community: e.target.value }))}>
        <option value="">all</option>${communities.map((name) => html`<option key=${name} value=${name} selected=${name === community}>${name}</option>`)}</select></label>`}
      <${Filters} clusters=${clusters} only=${only} />
    </div>
    <div class=${"split" + (chosen ? " open" : "")}>
      <div class=${"regions" + (dense ? " dense" : "")} ref=${ref} onKeyDown=${(e) => sideways(e, roving)}>
        ${shown.length === 0 && html`<p class="notice">${clusters.length ? "No cluster matches." : "The set has no clusters yet. clusterset join makes a cluster a member."}</p>`}
        ${regions.map(([network, region, zones]) => html`<section class="region" key=${network + "/" + region} aria-label=${(region ? `Region ${region}` : "Region unknown") + (networks ? `, ${networkName(network)}` : "")}>
          <h2>${region || html`<span class="faint">Region unknown</span>`} ${networks && html`<${Tag} icon="network" tone="calm" title="Between networks only external addresses of Services are used">${networkName(network)}<//>`} <span class="faint">${count(zones.reduce((n, [, all]) => n + all.length, 0), "cluster")}</span></h2>
          <div class="zones">${zones.map(([zone, all]) => html`<div class="zone" key=${zone} style=${{ "--n": Math.min(all.length, 4) }}>
            <h3>${zone || html`<span class="faint">zone unknown</span>`}</h3>
            <ul class="tiles">${all.map((c) => {
              i++;
              return html`<li key=${c.name}><${Tile} c=${c} dense=${dense} usual=${usual} chosen=${c === chosen} rove=${roving.rove(i)} /></li>`;
            })}</ul>
          </div>`)}</div>
        </section>`)}
        <${Sources} sources=${map.data.sources} problems=${problems.data} open=${params.get("sources") === "1"} />
      </div>
      ${chosen && html`<${Cluster} key=${chosen.name} c=${chosen} map=${map.data} changes=${changes} parameter=${parameter} />`}
    </div>`;
}

function sideways(e, roving) {
  const key = { ArrowRight: "ArrowDown", ArrowLeft: "ArrowUp" }[e.key];
  roving.onKeyDown(key ? { key, preventDefault: () => e.preventDefault() } : e);
}

/** is says whether a cluster passes a filter. */
function is(c, only) {
  switch (only) {
    case "": return true;
    case "drained": return !!(c.after ?? c).drain;
    case "changed": return changed(c);
    default: return c.phase === only;
  }
}

/** communitiesOf is the communities of a cluster: with changes, after them. */
const communitiesOf = (c) => ((c.after ?? c).communities?.length ? (c.after ?? c).communities : ["default"]);

const changed = (c) => !!(c.after || c.down || c.leaves);

/** place is where a cluster lies: with changes, after them. */
function place(c) {
  const at = c.after ?? c;
  return { region: at.region ?? "", zone: (at.zones ?? []).join(" + ") };
}

const networkName = (network) => (network ? `network ${network}` : "network without a name");

/** arrange sorts clusters into networks, regions and zones. Unknown regions and zones are last. */
function arrange(clusters) {
  const networks = new Map();
  for (const c of clusters) {
    const { region, zone } = place(c);
    const all = under(under(networks, (c.after ?? c).network ?? ""), region);
    if (!all.has(zone)) all.set(zone, []);
    all.get(zone).push(c);
  }
  const sorted = (m) => [...m].sort(([a], [b]) => (a === "") - (b === "") || a.localeCompare(b, "en", { numeric: true }));
  return sorted(networks).flatMap(([network, regions]) => sorted(regions).map(([region, zones]) => [network, region, sorted(zones)]));
}

/** under is the map in a map. */
function under(map, key) {
  if (!map.has(key)) map.set(key, new Map());
  return map.get(key);
}

function mostCommon(all) {
  const n = new Map();
  for (const v of all) if (v) n.set(v, (n.get(v) ?? 0) + 1);
  return [...n].sort((a, b) => b[1] - a[1])[0]?.[0];
}

function Filters({ clusters, only }) {
  const n = (f) => clusters.filter((c) => is(c, f)).length;
  const filters = [
    ...Object.keys(phases).map((p) => [p, html`<${Icon} name=${phases[p].icon} /> ${p}`, phases[p].tone]),
    ["drained", html`<${Icon} name="drain" /> drained`, "warn"], ["changed", html`<${Icon} name="what" /> changed`, "what"],
  ].map((f) => [...f, n(f[0])]).filter(([id, , , k]) => k > 0 || id === only);
  return html`<div class="filters" role="group" aria-label="Show only">${filters.map(([id, text, tone, k]) => html`
    <${Press} key=${id} class=${"tag filter " + tone} on=${id === only} href=${here({ only: id === only ? null : id })}><b>${k}</b> ${text}<//>`)}</div>`;
}

/** Tile is a cluster in one look. In a dense map what is usual is left out. */
function Tile({ c, dense, usual, chosen, rove }) {
  const at = c.after ?? c;
  const p = phases[c.phase] ?? phases.Unknown;
  const tone = c.down || c.leaves ? "what" : c.phase === "Ready" && at.drain ? "warn" : p.tone;
  const odd = usual && c.agentVersion && c.agentVersion !== usual;
  const heard = c.lastHeartbeat ? html`<span>heartbeat <${Age} time=${c.lastHeartbeat} /></span>` : c.phase === "Unknown" && html`<span>no heartbeat yet</span>`;
  return html`<a class=${`tile ${tone}${chosen ? " chosen" : ""}${changed(c) ? " changed" : ""}`} href=${here({ cluster: chosen ? null : c.name })} aria-current=${chosen ? "true" : undefined} ...${rove}>
    <span class="tilename"><${Icon} name=${p.icon} label=${c.phase} /><b>${c.name}</b></span>
    <span class="tilefacts">
      ${c.down && html`<${Tag} icon="power" tone="what">off<//>`}
      ${c.leaves && html`<${Tag} icon="left" tone="what">leaves<//>`}
      ${!c.drain && at.drain && html`<${Tag} icon="drain" tone="what">would be drained<//>`}
      ${c.drain && !at.drain && html`<${Tag} icon="undrain" tone="what">no longer drained<//>`}
      ${c.drain && at.drain && html`<${Tag} icon="drain" tone="warn">drained<//>`}
      ${moved(c) && html`<${Tag} icon="move" tone="what">moved<//>`}
      ${c.after && c.network !== c.after.network && html`<${Tag} icon="network" tone="what">other network<//>`}
      ${c.after && `${c.communities}` !== `${c.after.communities}` && html`<${Tag} icon="group" tone="what">other communities<//>`}
      ${c.phase !== "Ready" ? html`<${Tag} tone=${p.tone} title=${p.text}>${c.phase}<//>` : !dense && html`<span class="faint">Ready</span>`}
      ${c.flaws?.includes("Limited") && html`<${Tag} icon="limited" tone="warn" title="The hub refuses more services of this cluster">limited<//>`}
      ${at.cantReach?.length > 0 && html`<${Tag} icon="cut" tone=${`${c.cantReach}` === `${at.cantReach}` ? "bad" : "what"} title=${`Its agent can't reach ${at.cantReach.join(", ")}`}>can't reach ${at.cantReach.length}<//>`}
      ${dense && odd && html`<span class="faint">${c.agentVersion}</span>`}
      ${dense && html`<span class="faint" title="exported services">${c.exports ?? 0}</span>`}
    </span>
    ${!dense && html`<span class="tilemore">${heard}<span>${count(c.exports ?? 0, "export")}</span>${at.communities?.length > 0 && html`<span title="communities"><${Icon} name="group" label="Communities" /> ${at.communities.slice(0, 3).join(", ")}${at.communities.length > 3 && ` and ${at.communities.length - 3} more`}</span>`}<span class=${odd ? "odd" : ""} title=${odd ? "not the usual version" : "version of the agent"}>${c.agentVersion ?? "version unknown"}</span></span>`}
  </a>`;
}

function moved(c) {
  if (!c.after) return false;
  const text = (x) => [...(x.zones ?? []), "|", x.region].join(" ");
  return text(c) !== text(c.after);
}

function Sources({ sources, problems, open }) {
  const wrong = (s) => problems?.items.filter((p) => p.namespace && p.context === s.context && p.cluster === s.cluster).length;
  const state = { Live: ["ready", "good"], Loading: ["unknown", "calm"], Away: ["expired", "bad"], Refused: ["cross", "bad"] };
  return html`<details class="sources" open=${open || sources.length <= 4}>
    <summary>What this page reads: ${count(sources.length, "source")}</summary>
    <${Table} label="Sources" head=${["Source", "State", "Last answer", "Services", "Server"]}>${sources.map((s, i) => html`<tr key=${i}>
        <th scope="row">${sourceName(s)}</th>
        <td><${Tag} icon=${state[s.state]?.[0] ?? "unknown"} tone=${state[s.state]?.[1] ?? "calm"}>${s.state}<//>${s.error && html`<div class="faint">${s.error}</div>`}</td>
        <td>${s.lastAnswer && html`<${Age} time=${s.lastAnswer} />`}</td>
        <td>${s.role === "member" && s.lastAnswer && [`${s.imported ?? 0} imported, ${s.exported ?? 0} exported`, wrong(s) && count(wrong(s), "problem")].filter(Boolean).join(", ")}</td>
        <td class="faint">${s.server}</td>
      </tr>`)}<//>
  </details>`;
}
