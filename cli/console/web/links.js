// Links: what leads from each cluster to each, and who reaches whom. Up to fifty clusters are drawn; the matrix has any number.
import { html, useMemo, useState } from "./html.js";
import { here } from "./address.js";
import { serverNow, useApi } from "./live.js";
import { Choice, Icon, More, Outcome, Search, Table, Toggle } from "./parts.js";
import { count, span } from "./words.js";

const drawn = 50; // clusters in a drawing
const step = 50; // rows of the matrix at first, and more at each press

export function LinksView({ address, map, parameter }) {
  const { params } = address;
  const got = useApi("api/links" + (parameter && "?" + parameter), { key: "links" });
  const find = (params.get("find") ?? "").toLowerCase();
  const only = params.get("cluster");
  const regions = useMemo(() => new Map(map.data?.clusters.map((c) => [c.name, c.region ?? ""])), [map.data]);
  if (!got.data) return html`<h1 tabindex="-1">Links</h1><${Outcome} got=${got} what="the links" />`;
  const { clusters, links } = got.data;
  const as = params.get("as") ?? (clusters.length > drawn ? "matrix" : "drawing");
  const used = links.filter((l) => l.services), cut = links.filter((l) => l.reachable === "False"), said = links.filter((l) => l.reachable && l.reachable !== "Unknown");
  const shown = links.filter((l) => !only || l.from === only || l.to === only);
  const json = "api/links" + (parameter && "?" + parameter);
  const csv = (e) => { e.currentTarget.href = URL.createObjectURL(new Blob([table(links)], { type: "text/csv" })); };
  return html`
    <div class="viewhead"><h1 tabindex="-1">Links</h1>
      <p class="lead">${got.data.uncounted ? "The set is too large to count what leads where." : `${count(used.length, "pair")} of clusters with services that lead from one to the other.`} ${said.length ? `${cut.length || "None"} of ${count(said.length, "measured path")} can't be used.` : "No path is measured."}</p></div>
    <div class="bar">
      ${as === "matrix" && html`<${Search} label="Find a cluster" params=${params} />`}
      <${Choice} label="Shown as" name="as" value=${as} options=${[["drawing", "drawing"], ["matrix", "matrix"]]} />
      ${only && html`<${Toggle} on=${true} values=${{ cluster: null }}>only ${only}<//>`}
      <a class="toggle" href=${json} onClick=${csv} download="links.csv">CSV</a><a class="toggle" href=${json} download="links.json">JSON</a>
    </div>
    <ul class="legend" aria-label="What links mean">
      <li><span class="wire used" aria-hidden="true"></span> services lead there, wider for more</li><li><span class="wire last" aria-hidden="true"></span> some for lack of anything better</li>
      <li><span class="wire cut" aria-hidden="true"></span> its agent can't reach it</li></ul>
    ${as === "matrix" ? html`<${Matrix} clusters=${clusters.filter((c) => c.includes(find) && (!only || c === only))} columns=${clusters} links=${links} />`
      : clusters.length > drawn ? html`<p class="notice">${count(clusters.length, "cluster")} are too many for a drawing; the matrix has them.</p>`
      : html`<${Drawing} clusters=${clusters} regions=${regions} links=${shown} only=${only} />`}`;
}

/** table is the links as CSV. */
export function table(links) {
  const fields = ["from", "to", "services", "lastResort", "reachable", "reason", "roundTripMicroseconds"];
  return [fields, ...links.map((l) => fields.map((f) => l[f] ?? ""))].map((row) => row.join() + "\n").join("");
}

const kind = (l) => (l.reachable === "False" ? "cut" : l.lastResort ? "last" : l.services ? "used" : "");

/** inWords is a link in a sentence. */
function inWords(l) {
  const reach = { True: "reached", False: "not reached", Unknown: "not measured" }[l.reachable];
  const trip = l.roundTripMicroseconds ? ` in ${trips(l)}` : "";
  const since = l.reachable === "False" && l.since ? `, for ${span(serverNow() - Date.parse(l.since))}` : "";
  return [`${l.from} to ${l.to}: ` + (l.services ? count(l.services, "service") : "no service"),
    l.lastResort && `${l.lastResort} as the last resort`, reach && reach + trip + (l.reason && l.reason !== "Answers" ? ` (${l.reason})` : "") + since].filter(Boolean).join("; ");
}

const trips = (l) => (l.roundTripMicroseconds < 10000 ? (l.roundTripMicroseconds / 1000).toFixed(1) : Math.round(l.roundTripMicroseconds / 1000)) + " ms";

/** Drawing has the clusters on a circle, by region, and an arrow for each link. */
function Drawing({ clusters, regions, links, only }) {
  const sorted = [...clusters].sort((a, b) => (regions.get(a) ?? "").localeCompare(regions.get(b) ?? "") || a.localeCompare(b, "en", { numeric: true }));
  const size = 760, middle = size / 2, radius = 250;
  const at = new Map(sorted.map((name, i) => {
    const angle = (i / sorted.length) * 2 * Math.PI - Math.PI / 2;
    return [name, { x: middle + radius * Math.cos(angle), y: middle + radius * Math.sin(angle), angle }];
  }));
  const most = Math.max(1, ...links.map((l) => l.services ?? 0));
  const lines = links.filter(kind).sort((a, b) => ["used", "last", "cut"].indexOf(kind(a)) - ["used", "last", "cut"].indexOf(kind(b)));
  return html`<div class="drawing"><svg viewBox=${`0 ${middle - 300} ${size} 600`} role="group" aria-label=${`${count(lines.length, "link")} between ${count(clusters.length, "cluster")}; the matrix has the same as a table`}>
    ${["used", "last", "cut"].map((k) => html`<marker key=${k} id=${"tip-" + k} class=${"tip " + k} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" /></marker>`)}
    ${lines.map((l) => {
      const a = at.get(l.from), b = at.get(l.to);
      const dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy) || 1;
      const bend = 14 + d * 0.06; // so that the two directions of a pair are apart
      const cx = (a.x + b.x) / 2 + ((middle - (a.x + b.x) / 2) * 0.35) - (dy / d) * bend, cy = (a.y + b.y) / 2 + ((middle - (a.y + b.y) / 2) * 0.35) + (dx / d) * bend;
      const short = (p, q, by) => { const n = Math.hypot(p.x - q.x, p.y - q.y) || 1; return { x: p.x + ((q.x - p.x) / n) * by, y: p.y + ((q.y - p.y) / n) * by }; };
      const from = short(a, { x: cx, y: cy }, 10), end = short(b, { x: cx, y: cy }, 12);
      return html`<path key=${l.from + ">" + l.to} class=${"link " + kind(l)} d=${`M${from.x} ${from.y}Q${cx} ${cy} ${end.x} ${end.y}`} stroke-width=${(1.25 + 4 * Math.sqrt((l.services ?? 0) / most)).toFixed(2)} marker-end=${`url(#tip-${kind(l)})`}><title>${inWords(l)}</title></path>`;
    })}
    ${sorted.map((name) => {
      const p = at.get(name), right = Math.cos(p.angle) > -0.01, lx = middle + (radius + 16) * Math.cos(p.angle), ly = middle + (radius + 16) * Math.sin(p.angle);
      const flat = Math.abs(Math.cos(p.angle)) < 0.15;
      return html`<a key=${name} class=${"node" + (only === name ? " chosen" : "")} href=${here({ cluster: only === name ? null : name })} aria-label=${`Only the links of ${name}`}>
        <circle cx=${p.x} cy=${p.y} r="7" /><text x=${lx} y=${ly + (flat ? (Math.sin(p.angle) < 0 ? -4 : 12) : 4)} text-anchor=${flat ? "middle" : right ? "start" : "end"}>${name}</text></a>`;
    })}
  </svg></div>`;
}

/** Matrix has a row for each cluster that uses others, and a column for each that is used. */
function Matrix({ clusters, columns, links }) {
  const [limit, setLimit] = useState(step);
  const by = useMemo(() => new Map(links.map((l) => [l.from + ">" + l.to, l])), [links]);
  return html`<${Table} class="reach" label="Who uses and reaches whom" head=${["From, to", ...columns.map((c) => html`<span>${c}</span>`)]}>
    ${clusters.slice(0, limit).map((from) => html`<tr key=${from}><th scope="row">${from}</th>${columns.map((to) => {
      const l = by.get(from + ">" + to);
      if (from === to) return html`<td key=${to} class="self" aria-label="itself"></td>`;
      if (!l) return html`<td key=${to} class="faint">·</td>`;
      return html`<td key=${to} class=${kind(l)} title=${inWords(l)}><span class="unseen">${inWords(l)}</span><span aria-hidden="true">${l.services > 0 && html`<b>${l.services}</b>`}${
        l.reachable === "False" ? html` <${Icon} name="cross" />` : l.reachable === "Unknown" ? html` <span class="faint">?</span>` : l.roundTripMicroseconds ? html`<div class="faint small">${trips(l)}</div>` : l.reachable ? (l.services ? "" : html`<${Icon} name="check" />`) : ""}</span></td>`;
    })}</tr>`)}<//>
  <${More} limit=${limit} step=${step} total=${clusters.length} set=${setLimit} />
  <p class="faint small above">A number counts services. A check mark or a round trip: reached. A cross: not reached. A question mark: not measured. Without a mark, the cluster's agent doesn't say.</p>`;
}
