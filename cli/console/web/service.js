// A service: who exports it, and what each place uses of it.
import { html, useMemo } from "./html.js";
import { here, to } from "./address.js";
import { toWords } from "./changes.js";
import { useApi } from "./live.js";
import { Age, Command, Effects, Icon, Outcome, Phase, Press, Search, Table, Tag, Toggle, Toggles } from "./parts.js";
import { count, given, inShell, placeName, placeText, severity, ways } from "./words.js";
import { Matrix } from "./matrix.js";
import { Answers } from "./answers.js";

export function ServiceView({ address, map, problems, changes, parameter }) {
  const { params, rest } = address;
  const [namespace = "", name = ""] = rest;
  const service = namespace + "/" + name;
  const got = useApi("api/service?service=" + encodeURIComponent(service) + (parameter && "&" + parameter), { key: service });
  const then = got.url?.includes("&changes="); // what is shown is an answer to that
  const data = got.data && { ...got.data, rows: got.data.rows ?? [], columns: columns(got.data.item, then && (got.data.itemAfter ?? {}), map.data?.clusters ?? []) };
  const networks = useMemo(() => networksOf(map.data?.clusters ?? []), [map.data]);
  const wrong = problems.data && [...problems.data.items, ...problems.data.answered ?? []].filter((p) => p.cluster && p.namespace === namespace && p.name === name);
  const fold = params.get("fold") === "1";
  const find = (params.get("place") ?? "").toLowerCase();
  const rows = useMemo(() => (data ? arrange(data.rows, fold).filter((r) => r.places.some((p) => placeName(p).toLowerCase().includes(find))) : []), [got.data, fold, find]);
  const title = html`<h1 tabindex="-1"><span class="faint">${namespace}/</span>${name}</h1>`;
  if (!data) return html`<nav class="crumbs" aria-label="Above"><a href=${to("services")}>Services</a></nav>${title}<${Outcome} got=${got} what="the service" />`;

  const item = data.itemAfter ?? data.item;
  const oldest = data.columns.find((c) => c.name === item?.winner);
  const at = params.get("at"), by = params.get("by");
  const chosen = rows.find((r) => r.places.some((p) => placeText(p) === at));
  const places = data.rows.reduce((n, r) => n + r.places.length, 0);
  return html`
    <nav class="crumbs" aria-label="Above"><a href=${to("services")}>Services</a></nav>
    <div class="viewhead">${title}
      <p class="tags">
        ${data.effects?.length > 0 && html`<${Effects} list=${data.effects} />`}
        ${!data.item && html`<${Tag} icon="plus" tone="what">nobody exports it now<//>`}
        ${data.item && then && !data.itemAfter && html`<${Tag} icon="minus" tone="what">nobody would export it<//>`}
      </p>
    </div>
    ${item && html`<dl class="facts across">
      <div><dt>Type</dt><dd>${item.type}</dd></div>
      <div><dt>Ports</dt><dd>${item.ports?.join(", ") || "none"}</dd></div>
      <div><dt>Ready endpoints</dt><dd>${item.ready} of ${item.clusters.reduce((n, c) => n + c.endpoints, 0)}${item.silent > 0 && html` <${Tag} icon="suspect" tone="warn">${item.silent} in Suspect clusters<//>`}</dd></div>
      <div><dt>Policy</dt><dd>${item.policy || "the default"}</dd></div>
      <div><dt>Oldest export</dt><dd>${item.winner}, <${Age} time=${oldest?.exportedAt} /></dd></div>
    </dl>`}
    <${Conflicts} list=${conflicts(data.item?.conflicts, data.changed)} />
    ${wrong?.length > 0 && html`<ul class="notices">${wrong.map((p, i) => html`<li key=${i} class="notice warn"><${Icon} name="alert" /> ${p.cluster}: ${p.what}: ${p.reason}: ${p.message}</li>`)}</ul>`}
    ${data.notes?.map((n) => html`<p class="notice">${n}</p>`)}

    <section aria-labelledby="matrix">
      <h2 id="matrix">From where, to where</h2>
      <div class="bar">
        <${Search} label="Find a place" params=${params} name="place" />
        <${Toggle} on=${fold} values=${{ fold: fold ? null : "1" }} title="One row for all places with the same answers">fold alike<//>
        <a class="toggle" href=${to("whatif", [], { kind: "policy", service })}><${Icon} name="policy" /> policy…</a>
        <span class="faint">${count(places, "place")} × ${count(data.columns.length, "cluster")}</span>
      </div>
      <${Legend} changes=${changes} hidden=${data.columns.some((c) => c.unseen || c.after?.unseen)} networks=${!!networks.was} />
      <div class=${"split wide" + (chosen ? " open" : "")}>
        ${rows.length === 0 ? html`<p class="notice">${places ? "No place matches." : "No place has clients."}</p>`
          : html`<${Matrix} rows=${rows} columns=${data.columns} networks=${networks} at=${at} by=${by} />`}
        ${chosen && html`<${Answers} key=${at} row=${chosen} place=${chosen.places.find((p) => placeText(p) === at)} column=${data.columns.find((c) => c.name === by)} columns=${data.columns} networks=${networks}
          service=${service} parameter=${parameter} params=${params} />`}
      </div>
    </section>

    <section aria-labelledby="exporters"><h2 id="exporters">Exported by</h2><${Exporters} columns=${data.columns} oldest=${oldest} changes=${changes} service=${service} /></section>
    ${data.led && html`<${Led} led=${data.led} map=${map.data} />`}
    <section aria-labelledby="access"><h2 id="access">Names and addresses</h2><${Access} data=${data} namespace=${namespace} name=${name} type=${item?.type} map=${map.data} /></section>`;
}

/** Access has what clients use, and commands that show what they get. */
function Access({ data, namespace, name, type, map }) {
  const service = namespace + "/" + name, ips = data.clusterSetIPs ?? {};
  const members = map?.sources.filter((s) => s.role === "member" && s.context in ips) ?? [];
  const zones = ["clusterset.local", ...(data.rows.some((r) => r.before && r.before.global.result !== "NXDOMAIN") ? ["global"] : [])];
  const names = zones.map((zone) => `${name}.${namespace}.svc.${zone}`);
  const at = members.length ? members.map((m) => [...given(map.flags, "kubeconfig"), "--context", m.context]) : [[]];
  const commands = [...names.map((n) => inShell("dig", "+short", n)), ...at.map((where) => inShell("clusterset", "explain", service, ...where))];
  return html`<dl class="facts">
      <div><dt>Names</dt><dd>${names.map((n) => html`<div key=${n}><code>${n}</code></div>`)}</dd></div>
      ${type !== "Headless" && html`<div><dt>ClusterSetIPs</dt><dd>${members.map((m) => html`<div key=${m.context}>${m.cluster || m.context}: ${ips[m.context]?.length ? html`<code>${ips[m.context].join(", ")}</code>` : html`<span class="faint">none</span>`}</div>`)}
        ${members.length === 0 && html`<span class="faint">Each cluster assigns its own. Start the console with --context to see those of a cluster.</span>`}</dd></div>`}
    </dl>
    <p class="faint small above">In a pod of a member, and in your shell:</p>
    ${commands.map((c) => html`<${Command} key=${c} text=${c} />`)}`;
}

/** Led has what share of a service's answers left the zone and the region, for each member that counts them. */
function Led({ led, map }) {
  const rows = Object.entries(led).map(([context, answers]) => {
    const n = (...tiers) => tiers.reduce((sum, t) => sum + (answers?.[t] ?? 0), 0), share = (part, of) => (of ? (100 * part / of).toFixed(1) + "%" : "–");
    const healthy = n("cluster", "zone", "region", "any"), degraded = n("degraded");
    return html`<tr key=${context}><th scope="row">${map?.sources.find((s) => s.role === "member" && s.context === context)?.cluster || context}</th>
      <td>${(healthy + degraded).toLocaleString("en")}</td><td>${share(n("region", "any"), healthy)}</td><td>${share(n("any"), healthy)}</td><td>${share(degraded, healthy + degraded)}</td></tr>`;
  });
  return html`<section aria-labelledby="led"><h2 id="led">How far answers led</h2>
    <${Table} label="Answers by cluster" head=${["Cluster", "Answers", "Left the zone", "Left the region", "Last resort"]}>${rows}<//>
    <p class="faint small above">Of each cluster's DNS servers since they started, read every five minutes. Answers with a ClusterSetIP aren't counted: kube-proxy chooses the endpoint.</p></section>`;
}

/** columns are the clusters that export the service now or after the changes, each with how it is then. */
function columns(now, then, clusters) {
  const at = new Map(clusters.map((c) => [c.name, c]));
  const state = ({ phase = "Unknown", drain, down, zones, region } = {}) => ({ phase, drain, down, zones, region });
  const all = (item, of) => (item?.clusters ?? []).map((c) => ({ ...state(of(at.get(c.name))), ...c, conflicts: item.conflicts?.some((x) => x.clusters.includes(c.name)) }));
  const before = all(now, (c) => c);
  if (!then) return before;
  const after = new Map(all(then, (c) => c?.after ?? c).map((c) => [c.name, c])), old = new Set(before.map((c) => c.name));
  return [...before.map((c) => ({ ...c, after: after.get(c.name), leaves: !after.has(c.name) })), ...[...after.values()].filter((c) => !old.has(c.name)).map((c) => ({ ...c, joins: true }))]
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** networksOf has the network of each cluster, now and after the changes, if there are several. */
function networksOf(clusters) {
  const of = (at) => Object.fromEntries(clusters.map((c) => [c.name, at(c).network ?? ""]));
  const was = of((c) => c), is = of((c) => c.after ?? c);
  return new Set([...Object.values(was), ...Object.values(is)]).size > 1 ? { was, is } : {};
}

/** arrange makes a row of each place, by region, zone and cluster, or leaves places with the same answers in one. */
function arrange(rows, fold) {
  const key = (p) => [p.region || "\uffff", p.zone || "\uffff", p.cluster].join("\0");
  const worst = (r) => Math.min(severity.length, ...Object.values(r.effects ?? {}).flat().map((e) => severity.indexOf(e)));
  if (fold) return [...rows].sort((a, b) => worst(a) - worst(b));
  return rows.flatMap((r) => r.places.map((p) => ({ ...r, places: [p], key: key(p) }))).sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** conflicts are those that exist and those that the changes begin, with what these do. */
function conflicts(now = [], changed = []) {
  const key = (c) => [c.reason, c.winner, ...c.clusters].join();
  const ended = changed.filter((c) => c.ends).map(key);
  return [...now.map((c) => ({ ...c, ends: ended.includes(key(c)) })), ...changed.filter((c) => !c.ends).map((c) => ({ ...c, begins: true }))];
}

function Conflicts({ list }) {
  if (!list.length) return null;
  return html`<ul class="notices">${list.map((c, i) => html`<li key=${i} class=${"notice " + (c.ends ? "good" : "warn")}><${Icon} name=${c.ends ? "check" : "conflict"} />
    <span>${c.begins && html`<b>Would come into conflict. </b>`}${c.ends && html`<b>Would no longer conflict. </b>`}${c.message}</span></li>`)}</ul>`;
}

function Exporters({ columns, oldest, changes, service }) {
  const limited = columns.some((c) => c.exportTo || c.after?.exportTo);
  const head = ["Cluster", "State", "Where", "Ready", "Exported", "ClusterIP", ...(limited ? ["Exported to"] : []), "What if"];
  return html`<${Table} label="Exporting clusters" head=${head}>${columns.slice(0, 50).map((c) => {
      const at = c.after ?? c, off = c.down || at.down;
      const others = changes.filter((x) => !(x.unexport?.service === service && x.unexport.from === c.name));
      return html`<tr key=${c.name}>
        <th scope="row"><a href=${to("map", [], { cluster: c.name })}>${c.name}</a>${c === oldest && html` <${Tag} icon="check" title="The oldest export wins where exports differ">oldest<//>`}${c.conflicts && html` <${Tag} icon="conflict" tone="warn">differs<//>`}</th>
        <td><${Phase} phase=${c.phase} />${" "}${c.drain && html`<${Tag} icon="drain" tone="warn">drained<//>`}${at.drain && !c.drain && html`<${Tag} icon="drain" tone="what">would be drained<//>`}
          ${off && html`<${Tag} icon="power" tone="what">off<//>`}${c.leaves && html`<${Tag} icon="minus" tone="what">no longer<//>`}${c.joins && html`<${Tag} icon="plus" tone="what">new<//>`}</td>
        <td>${[at.zones?.join(", "), at.region].filter(Boolean).join(" / ") || html`<span class="faint">unknown</span>`}</td>
        <td>${c.ready} of ${c.endpoints}</td>
        <td><${Age} time=${c.exportedAt} /></td>
        <td>${c.clusterIPs?.join(", ") ?? ""}</td>
        ${limited && html`<td>${at.exportTo?.join(", ") || html`<span class="faint">all</span>`}</td>`}
        <td class="links"><${Toggles} c=${c} changes=${changes} kind="toggle" label kinds=${[["down", "power"], c.drain ? ["undrain", "undrain"] : ["drain", "drain"]]} />
          <${Press} class="toggle" on=${others.length < changes.length} aria-label=${`unexport from ${c.name}`} href=${here({ if: (others.length < changes.length ? others : [...changes, { unexport: { service, from: c.name } }]).map(toWords) })}><${Icon} name="minus" /> unexport<//></td>
      </tr>`;
    })}<//>${columns.length > 50 && html`<p class="faint">and ${columns.length - 50} more, in the matrix above</p>`}`;
}

function Legend({ changes, hidden, networks }) {
  const all = [
    ["used", html`3`, "used: ready endpoints"], ["some", html`3<small>IP</small>`, "used by some ways only, named"], ["last", html`<${Icon} name="alert" />3`, "used as the last resort"],
    ["dead", html`<${Icon} name="power" />3`, "used, but off"], ["", "·", "not used"],
  ];
  if (hidden) all.push(["hid", html`<${Icon} name="hidden" />`, "not visible: by communities or export-to"]);
  if (networks) all.push(["used", html`<${Icon} name="network" />3`, "used at addresses for other networks"], ["none", html`<${Icon} name="network" />`, "not used, and in another network"]);
  if (changes.length) all.push(["used new", html`<${Icon} name="plus" />3`, "would be used"], ["gone", html`<${Icon} name="minus" />3`, "would no longer be used"]);
  return html`<ul class="legend" aria-label="What cells mean">${all.map(([kind, mark, text]) => html`<li key=${text}><span class=${"mark " + kind} aria-hidden="true">${mark}</span> ${text}</li>`)}
    <li class="faint">Ways: ${Object.values(ways).map((w) => `${w.short} = ${w.name}`).join(", ")}</li></ul>`;
}
