// What is used from one place, and why; its endpoints on demand.
import { html, useState } from "./html.js";
import { here } from "./address.js";
import { useApi } from "./live.js";
import { Choice, Effects, Icon, More, Outcome, Table, Tag, Toggle } from "./parts.js";
import { compare, unseen } from "./matrix.js";
import { count, phases, placeName, placeText, tiers, ways } from "./words.js";

const step = 100; // endpoints shown at first, and more at each press

export function Answers({ row, place, column, columns, networks, service, parameter, params }) {
  const open = params.get("ends") === "1";
  const hidden = columns.map((c) => unseen(c.after ?? c, row)).filter(Boolean);
  return html`<section class="panel answers" aria-label="Answers in a place">
    <div class="panelhead"><h2>From ${placeName(place)}${column && html`, to ${column.name}`}</h2><a class="close" data-close href=${here({ at: null, by: null, ends: null })} aria-label="Close the answers"><${Icon} name="cross" /></a></div>
    <dl class="ways">${Object.keys(ways).filter((w) => row.before?.[w] || row.after?.[w]).map((w) => html`<div key=${w}>
      <dt>${ways[w].name} <${Effects} list=${row.effects?.[w] ?? []} /></dt>
      <dd>${row.after && sentence(row.after[w], w) !== sentence(row.before?.[w], w) ? html`<s>${sentence(row.before?.[w], w)}</s><br /><ins>${sentence(row.after[w], w)}</ins>` : sentence(row.before?.[w], w)}</dd>
    </div>`)}</dl>
    ${column && html`<p><b>Why:</b> ${why(row, column, networks)}</p>`}
    ${!column && hidden.length > 0 && html`<p><b>Not visible from there:</b> ${hidden.slice(0, 5).join("; ")}${hidden.length > 5 && `; and ${hidden.length - 5} more`}.</p>`}
    ${row.places.length > 1 && html`<p class="faint">The same from ${row.places.filter((p) => p !== place).slice(0, 20).map(placeName).join("; ")}${row.places.length > 21 && ` and ${row.places.length - 21} more`}.</p>`}
    <p><${Toggle} on=${open} values=${{ ends: open ? null : "1" }}>Endpoints and their reasons<//></p>
    ${open && html`<${Endpoints} service=${service} place=${place} column=${column} parameter=${parameter} params=${params} />`}
  </section>`;
}

/** sentence says where an answer leads: that to a query for a name, or connections to an address. */
function sentence(a, way) {
  if (!a) return "no ClusterSetIP";
  if (a.byClusterSetIP) return "the ClusterSetIP";
  if (a.result === "NXDOMAIN") return "no such name (NXDOMAIN)";
  if (!a.clusters?.length) return way === "dns" || way === "global" ? "no address (NODATA)" : "nowhere: no endpoint is ready";
  const by = a.clusters.map((c) => `${c.cluster} ${c.ready}${c.down ? " (off)" : ""}`).join(", ");
  return `${count(a.ready, "ready endpoint")}: ${by}; ${a.degraded ? "only drained, silent and unreachable clusters are left" : tiers[a.tier] ?? ""}${a.ports?.length ? `; ports ${a.ports.join(", ")}` : ""}`;
}

/** why says why the place uses a cluster or not, from its state and the tier that is used. */
function why(row, column, networks) {
  const { is } = compare(row, column, networks);
  const at = column.after ?? column;
  const answers = row.after ?? row.before;
  const used = Object.keys(ways).map((w) => answers?.[w]).filter((a) => a && !a.byClusterSetIP && a.clusters?.length);
  const tier = used[0]?.tier;
  if (is.by.length) {
    if (is.down) return `${column.name} is off, but the hub hasn't noticed yet, or nothing else is left.`;
    if (is.degraded) return `${column.name} is ${at.drain ? "drained" : at.phase}, and nothing better is left.`;
    return `${tier === "any" ? "Endpoints at any distance are used" : `It is ${tiers[tier] ?? "used"}`}${is.apart ? ", these at addresses for other networks, as it is in another one" : ""}; its state is ${column.phase}.`;
  }
  if (column.leaves) return "It would no longer export the service.";
  if (is.unseen) return `${is.unseen}.`;
  if (at.phase === "Expired") return `It is Expired: ${phases.Expired.text}.`;
  if (at.ready === 0) return "It has no ready endpoint.";
  if (at.drain) return "It is drained: it is used only if nothing else is left.";
  if (at.phase === "Suspect") return `It is Suspect: ${phases.Suspect.text}.`;
  if (tier && tier !== "any") return `Enough endpoints are ${tiers[tier]}, so none farther is used.`;
  if (is.apart) return "It is in another network, from which only external addresses are used. The list of endpoints has the reason.";
  return "The list of endpoints has the reasons.";
}

function Endpoints({ service, place, column, parameter, params }) {
  const zone = params.get("zone") ?? "mcs";
  const [limit, setLimit] = useState(step);
  const url = `api/endpoints?service=${encodeURIComponent(service)}&place=${encodeURIComponent(placeText(place))}&zone=${zone}` + (parameter && "&" + parameter);
  const got = useApi(url, { key: service + placeText(place) + zone });
  const names = { mcs: "clusterset.local", global: "svc.global" };
  const pick = html`<${Choice} label="Name" name="zone" usual="mcs" value=${zone} options=${Object.entries(names)} />`;
  if (!got.data) return html`${pick}<${Outcome} got=${got} what="the endpoints" />`;
  const { before, after } = got.data;
  const e = after ?? before;
  if (!e) return html`${pick}<p class="notice">No such name there.</p>`;
  const was = new Map((before?.endpoints ?? []).map((x) => [x.cluster + x.address, x.answered]));
  const all = (e.endpoints ?? []).filter((x) => !column || x.cluster === column.name);
  return html`${pick}
    <p>${e.because}</p>
    ${e.networks?.filter((x) => !column || x.cluster === column.name).map((x) => html`<p key=${x.cluster}><b>Network:</b> ${x.message}${x.cure && html`<br /><span class="faint">${x.cure}</span>`}</p>`)}
    ${e.notes?.map((n) => html`<p class="faint">${n}</p>`)}
    <p class="faint">${count(all.length, "endpoint")}${column && html` of ${column.name}; <a href=${here({ by: null })}>of all clusters</a>`}</p>
    <${Table} label="Endpoints" head=${["Endpoint", "Used", "Reason"]}>${all.slice(0, limit).map((x, i) => {
        const changed = parameter && (was.get(x.cluster + x.address) ?? false) !== x.answered;
        return html`<tr key=${i} class=${changed ? "changed" : ""}>
          <th scope="row"><code>${x.address}</code>${x.hostname && html` <span class="faint">${x.hostname}</span>`}<div class="faint small">${[x.cluster, x.zone, x.region].filter(Boolean).join(" / ")}</div></th>
          <td>${x.answered ? html`<${Tag} icon=${changed ? "plus" : "check"} tone=${changed ? "what" : "good"}>yes<//>` : html`<${Tag} icon=${changed ? "minus" : ""} tone=${changed ? "what" : "calm"}>no<//>`}</td>
          <td class="small">${x.reason}</td></tr>`;
      })}<//>
    <${More} limit=${limit} step=${step} total=${all.length} set=${setLimit} />`;
}
