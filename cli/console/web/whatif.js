// What if: builds a change and lists its effects, the worst first.
import { html, useMemo, useState } from "./html.js";
import { go, here, to } from "./address.js";
import { command, toParameter, toWords, withCluster } from "./changes.js";
import { get, useApi } from "./live.js";
import { Choice, Command, Effect, Effects, Icon, Outcome, Search, Tag, Toggle } from "./parts.js";
import { useList } from "./rows.js";
import { count, severity } from "./words.js";

const kinds = {
  down: ["down", "power", "The cluster fails."], unreachable: ["unreachable", "cut", "Other clusters can't reach the cluster, while the hub goes on hearing all."],
  drain: ["drain", "drain", "The cluster is used only if nothing else is left."], undrain: ["undrain", "undrain", "The drain of the cluster ends."],
  leave: ["leave", "left", "The cluster leaves the set."], place: ["place", "move", "The cluster's MemberCluster gets other zones, another region, other communities, another network or other CIDRs."],
  policy: ["policy", "policy", "All exports of the service state a policy, or are for these clusters and communities only."],
  unexport: ["unexport", "minus", "The cluster no longer exports the service."], export: ["export", "plus", "The cluster exports the service too."],
};

export function WhatIfView({ address, map, changes, whatif }) {
  return html`
    <div class="viewhead"><h1 tabindex="-1">What if</h1>
      <p class="lead">Choose a change, as for <code>clusterset preview</code>: every view shows the difference. Nothing is changed.</p></div>
    <${Builder} key=${address.params.get("kind") + "|" + address.params.get("cluster") + "|" + address.params.get("service")} params=${address.params} clusters=${map.data?.clusters ?? []} changes=${changes} />
    ${changes.length > 0 && html`<${Result} params=${address.params} changes=${changes} whatif=${whatif} map=${map} />`}`;
}

/** Builder builds one change. It adds only what the server finds possible: a name with a typo stays in its field. */
function Builder({ params, clusters, changes }) {
  const kind = kinds[params.get("kind")] ? params.get("kind") : "down";
  const ofService = ["policy", "export", "unexport"].includes(kind);
  const [service, setService] = useState(params.get("service") ?? "");
  const offers = useApi(ofService && service.length > 0 ? "api/services?limit=20&q=" + encodeURIComponent(service) : null, { key: "offers", once: true });
  const [wrong, setWrong] = useState("");
  const submit = async (e) => {
    e.preventDefault();
    const f = Object.fromEntries(new FormData(e.target));
    let next;
    const list = (text) => text.split(",").map((w) => w.trim()).filter(Boolean);
    const given = (names, read) => Object.fromEntries(names.filter((name) => f[name]).map((name) => [name, read(f[name])]));
    const lists = (...names) => given(names, list), texts = (...names) => given(names, (text) => text.trim());
    switch (kind) {
      case "place": next = [...changes, { place: { cluster: f.cluster, ...lists("zones", "communities", "cidrs", "externalCIDRs"), ...texts("region", "network") } }]; break;
      case "policy": next = [...changes, { policy: { service: f.service, ...texts("prefer", "boundary"), ...(f.minReady && { minReady: Number(f.minReady) }), ...lists("exportTo") } }]; break;
      case "unreachable": next = [...changes, { unreachable: { clusters: list(f.cluster), ...(f.from && { from: list(f.from) }) } }]; break;
      case "export": case "unexport": next = [...changes, { [kind]: { service: f.service, from: f.cluster } }]; break;
      default: next = changes.some((c) => c[kind]?.includes(f.cluster)) ? changes : withCluster(changes, kind, f.cluster);
    }
    try {
      await get("api/map?" + toParameter(next));
    } catch (error) {
      if (error.status === 400) return setWrong(error.message.replace(/^change \d+: /, ""));
    }
    setWrong("");
    go(here({ if: next.map(toWords), cluster: null, service: null }));
  };
  const cluster = html`<label>Cluster <input name="cluster" required list="clusters" autocomplete="off" spellcheck="false" defaultValue=${params.get("cluster") ?? ""} /></label>`;
  return html`<form class="builder" onSubmit=${submit} aria-label="A change">
    <${Choice} kind=" wrap" label="Kind of change" name="kind" value=${kind} options=${Object.entries(kinds).map(([id, [text, icon, title]]) => [id, html`<${Icon} name=${icon} /> ${text}`, title])} />
    <p class="faint">${kinds[kind][2]}</p>
    <datalist id="clusters">${clusters.map((c) => html`<option key=${c.name} value=${c.name}></option>`)}</datalist>
    <datalist id="services">${offers.data?.items?.map((s) => html`<option key=${s.namespace + s.name} value=${s.namespace + "/" + s.name}></option>`)}</datalist>
    <div class="fields">
      ${ofService && html`<label>Service <input name="service" required list="services" placeholder="namespace/name" autocomplete="off" spellcheck="false" value=${service} onInput=${(e) => setService(e.target.value)} /></label>`}
      ${kind !== "policy" && cluster}
      ${kind === "unreachable" && html`<label>From <input name="from" list="clusters" placeholder="all others" autocomplete="off" spellcheck="false" /></label>`}
      ${kind === "place" && [["Zones", "zones"], ["Region", "region"], ["Communities", "communities"], ["Network", "network"], ["CIDRs", "cidrs"], ["External CIDRs", "externalCIDRs"]].map(([text, name]) => html`
        <label key=${name}>${text} <input name=${name} placeholder="as now; - for none" autocomplete="off" spellcheck="false" /></label>`)}
      ${kind === "policy" && html`<label>Prefer <input name="prefer" list="prefers" placeholder="as now" autocomplete="off" /></label>
        <datalist id="prefers">${["zone region", "region", "cluster zone region", "cluster", "none"].map((v) => html`<option key=${v} value=${v}></option>`)}</datalist>
        <label>Boundary <select name="boundary"><option value="">as now</option><option>cluster</option><option>zone</option><option>region</option></select></label>
        <label>Min-ready <input name="minReady" type="number" min="1" max="1000000" placeholder="as now" /></label>
        <label>Export to <input name="exportTo" placeholder="as now; - for all" autocomplete="off" spellcheck="false" /></label>`}
      <button class="primary" type="submit"><${Icon} name="plus" /> Add the change</button>
    </div>
    ${wrong && html`<p class="notice bad" role="alert"><${Icon} name="alert" /> <span>Not added: ${wrong}</span></p>`}
  </form>`;
}

function Result({ params, changes, whatif, map }) {
  const find = (params.get("find") ?? "").toLowerCase();
  const only = params.get("effect");
  const all = whatif.data?.services ?? [];
  const shown = useMemo(() => all.filter((s) => (!only || s.effects.includes(only)) && (s.namespace + "/" + s.name).includes(find)), [whatif.data, find, only]);
  const { list } = useList(shown.length, 2.75, 4.25);
  if (!whatif.data) return html`<${Outcome} got=${whatif} what="what would change" />`;
  const { summary, notes } = whatif.data;
  return html`<section aria-labelledby="result" aria-busy=${whatif.busy ? "true" : "false"}>
    <h2 id="result">${summary.text}</h2>
    ${notes?.map((n) => html`<p class="notice" key=${n}>${n}</p>`)}
    <div class="bar">
      <${Search} label="Find a service" params=${params} />
      <div class="filters" role="group" aria-label="Show only">${severity.filter((e) => summary.effects[e]).map((e) => html`
        <${Toggle} key=${e} on=${only === e} values=${{ effect: only === e ? null : e }}><${Effect} effect=${e} n=${summary.effects[e]} /><//>`)}</div>
    </div>
    ${shown.length > 0 && list({
      kind: "changes", "aria-label": "Services that change, the worst first",
      head: ["Service", "Effects", "Places that change"].map((text) => html`<span key=${text} role="columnheader">${text}</span>`),
      row: (i, at, rove) => {
        const s = shown[i];
        return html`<div class="row" key=${s.namespace + "/" + s.name} ...${at}>
          <span role="gridcell" class="name"><a href=${to("service", [s.namespace, s.name])} ...${rove}><span class="faint">${s.namespace}/</span>${s.name}</a></span>
          <span role="gridcell" class="state"><${Effects} list=${s.effects} />${s.conflicts && html`<${Tag} icon="conflict" tone="warn">${count(s.conflicts.length, "conflict")}<//>`}</span>
          <span role="gridcell">${s.places === undefined ? "" : count(s.places, "place")}</span>
        </div>`;
      },
    })}
    ${shown.length === 0 && html`<p class="notice">${all.length ? "No service matches." : "No service changes."}</p>`}
    <section class="cli" aria-labelledby="cli"><h2 id="cli">The same on the command line</h2>${map.data && html`<${Command} text=${command(changes, map.data)} />`}</section>
  </section>`;
}
