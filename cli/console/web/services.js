// The list of services. The server searches and sorts; the page holds what is near the screen.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { go, here, to } from "./address.js";
import { get, useTick } from "./live.js";
import { announce, Effects, Icon, Search, Tag, Toggle } from "./parts.js";
import { useList } from "./rows.js";
import { count } from "./words.js";

const page = 100; // rows per request, as the server has
const filters = ["q", "cluster", "type", "conflicts", "policy", "empty", "sort", "desc"];

export function ServicesView({ address, map, whatif }) {
  const { params } = address;
  const query = new URLSearchParams();
  for (const f of filters) if (params.get(f)) query.set(f, params.get(f));
  const base = "api/services?" + query;
  const [matched, setMatched] = useState(0);
  const { range, list: rows } = useList(matched, 2.75, 6.5);
  const list = usePages(base, range.from, range.to);
  useEffect(() => {
    if (list.matched === undefined) return;
    setMatched(list.matched);
    announce(`${count(list.matched, "service")}${list.matched === list.total ? "" : ` of ${list.total} match`}`);
  }, [list.matched, list.total]);
  const effects = useMemo(() => new Map(whatif.data?.services?.map((s) => [s.namespace + "/" + s.name, s.effects])), [whatif.data]);
  const type = (e) => go(here({ type: e.target.value }));
  const clusters = map.data?.clusters ?? [];
  return html`
    <div class="viewhead"><h1 tabindex="-1">Services</h1>
      <p class="lead">${list.matched === undefined ? "Reading…" : list.matched === list.total ? count(list.total, "service") : `${list.matched.toLocaleString("en")} of ${count(list.total, "service")}`}</p></div>
    <div class="bar">
      <${Search} label="Search: namespace/name, DNS name or address" params=${params} name="q" />
      <label class="select">Type <select name="type" value=${params.get("type") ?? ""} onChange=${type}><option value="">any</option><option>ClusterSetIP</option><option>Headless</option></select></label>
      <label class="select">Exported by <select name="cluster" value=${params.get("cluster") ?? ""} onChange=${(e) => go(here({ cluster: e.target.value }))}>
        <option value="">any cluster</option>${clusters.map((c) => html`<option key=${c.name} value=${c.name}>${c.name}</option>`)}</select></label>
      <div class="filters" role="group" aria-label="Show only">
        ${[["conflicts", "conflict", "conflict"], ["policy", "policy", "own policy"], ["empty", "expired", "no ready endpoint"]].map(([id, icon, text]) => html`
          <${Toggle} key=${id} on=${params.get(id) === "1"} values=${{ [id]: params.get(id) === "1" ? null : "1" }}><${Icon} name=${icon} /> ${text}<//>`)}
      </div>
    </div>
    ${list.error && html`<p class="notice bad" role="alert"><${Icon} name="alert" /> ${list.error}</p>`}
    ${rows({
      kind: "services", "aria-label": "Services", "aria-busy": list.busy ? "true" : "false",
      head: html`<${Column} name="name" text="Service" params=${params} first />
        <span role="columnheader">Type</span>
        <${Column} name="clusters" text="Exported by" params=${params} />
        <${Column} name="ready" text="Ready" params=${params} />
        <span role="columnheader">Policy and state</span>`,
      row: (i, at, rove) => html`<${Row} key=${i} s=${list.items.get(i)} at=${at} effects=${effects} rove=${rove} />`,
    })}
    ${list.matched === 0 && html`<p class="notice">No service matches.</p>`}`;
}

function Column({ name, text, params, first }) {
  const sort = params.get("sort") ?? "name";
  const desc = params.get("desc") === "1";
  const on = sort === name;
  // The first press sorts numbers from the highest.
  const next = on ? { sort: first ? null : name, desc: desc ? null : "1" } : { sort: first ? null : name, desc: first ? null : "1" };
  return html`<span role="columnheader" aria-sort=${on ? (desc ? "descending" : "ascending") : undefined}><a href=${here(next)}>${text}${on && html` <${Icon} name=${desc ? "less" : "more"} />`}</a></span>`;
}

function Row({ s, at, effects, rove }) {
  if (!s) return html`<div class="row" ...${at}><span role="gridcell" class="faint" ...${rove}>…</span></div>`;
  const service = s.namespace + "/" + s.name, changed = effects.get(service);
  const endpoints = s.clusters.reduce((n, c) => n + c.endpoints, 0);
  return html`<div class=${"row" + (changed ? " changed" : "")} ...${at}>
    <span role="gridcell" class="name"><a href=${to("service", [s.namespace, s.name])} ...${rove}><span class="faint">${s.namespace}/</span>${s.name}</a></span>
    <span role="gridcell" class="type">${s.type}</span>
    <span role="gridcell" class="by"><b>${s.clusters.length}</b> <span>${s.clusters.slice(0, 8).map((c) => c.name).join(", ")}${s.clusters.length > 8 && " …"}</span></span>
    <span role="gridcell" class=${"ready" + (s.ready === 0 ? (s.silent ? " silent" : " none") : "")}>${s.ready === 0 && html`<${Icon} name=${s.silent ? "suspect" : "expired"} label=${s.silent ? "ready endpoints only in Suspect clusters" : "no ready endpoint"} /> `}${s.ready}<span class="faint"> of ${endpoints}</span></span>
    <span role="gridcell" class="state">
      ${changed && html`<${Effects} list=${changed.slice(0, 2)} />`}
      ${s.conflicts && html`<${Tag} icon="conflict" tone="warn" title=${count(new Set(s.conflicts.map((c) => c.field)).size, "conflict")}>conflict<//>`}
      ${s.policy && html`<${Tag} icon="policy" title="stated by its exports">${s.policy}<//>`}
    </span>
  </div>`;
}

/** usePages holds the pages of a list that cover the rows from..to, and asks for them again when services change. */
function usePages(base, from, to) {
  const tick = useTick();
  const first = Math.floor(from / page), last = Math.max(first, Math.floor((to - 1) / page));
  const [state, set] = useState({ base });
  const asked = useRef();
  useEffect(() => {
    asked.current = { ticks: new Map(), aborter: new AbortController() }; // by page: the tick at which it was asked for
    return () => asked.current.aborter.abort();
  }, [base]);
  useEffect(() => {
    const { ticks, aborter } = asked.current;
    const put = (change) => set((s) => ({ ...(s.base === base ? s : { base, items: new Map() }), ...change(s.base === base ? s.items ?? new Map() : new Map()) }));
    for (let p = first; p <= last; p++) {
      if (ticks.get(p) === tick) continue;
      ticks.set(p, tick);
      get(`${base}&offset=${p * page}`, aborter.signal).then((data) => put((was) => {
        const items = new Map(was);
        for (let i = 0; i < page; i++) items.delete(p * page + i);
        (data.items ?? []).forEach((item, i) => items.set(p * page + i, item));
        return { items, total: data.total, matched: data.matched, error: undefined };
      }), (error) => {
        ticks.delete(p);
        if (error.status) put(() => ({ error: error.message })); // else the banner says that the server is away
      });
    }
  }, [base, first, last, tick]);
  // The rows of the last search stay until the next one is answered.
  const shown = useRef({ items: new Map() });
  if (state.base === base && state.items) shown.current = state;
  return { ...shown.current, error: state.error, busy: state.base !== base };
}
