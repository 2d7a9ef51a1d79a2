// History: what happened in the set, the newest first.
import { html } from "./html.js";
import { here, to } from "./address.js";
import { serverNow, useApi } from "./live.js";
import { Icon, Outcome, Search, Tag, Toggle, useClock } from "./parts.js";
import { count, finder, span } from "./words.js";

export function HistoryView({ address, map }) {
  const { params } = address;
  const history = useApi("api/history", { key: "history" });
  useClock();
  if (!history.data) return html`<h1 tabindex="-1">History</h1><${Outcome} got=${history} what="the history" />`;
  const { items, total, unread = [] } = history.data;
  const has = finder(params.get("find"));
  const only = params.get("only") === "warnings";
  const found = items.filter((h) => has(h.namespace && h.namespace + "/" + h.name, h.name, h.what, h.reason, h.message, h.cluster, h.context));
  const warnings = found.filter((h) => h.warning);
  const shown = only ? warnings : found;
  const days = Object.entries(Object.groupBy(shown, (h) => new Date(h.time).toLocaleDateString("en-CA")));
  return html`
    <div class="viewhead"><h1 tabindex="-1">History</h1>
      <p class="lead">${total === 0 ? "Nothing is known." : `The newest first${total > items.length ? `; the last ${items.length} of ${total}` : ""}`}</p></div>
    ${total > 0 && html`<div class="bar">
      <${Search} label="Find: a name, a cluster, a word" params=${params} />
      <div class="filters" role="group" aria-label="Show only"><${Toggle} on=${only} values=${{ only: only ? null : "warnings" }}><b>${warnings.length}</b> Warnings<//></div>
    </div>`}
    ${unread.map((u) => html`<p key=${u} class="notice">Events of ${u}</p>`)}
    ${total > 0 && shown.length === 0 && html`<p class="notice">Nothing matches.</p>`}
    ${days.map(([day, list]) => html`<section key=${day} aria-labelledby=${"day-" + day}><h2 id=${"day-" + day}>${day} <span class="faint">${count(list.length, "entry", "entries")}</span></h2>
      <ol class="history">${list.map((h) => html`<${Entry} key=${[h.time, h.context, h.what, h.namespace, h.name, h.reason, h.message].join()} h=${h} clusters=${map.data?.clusters ?? []} />`)}</ol></section>`)}
    <p class="faint small above">API servers delete Events after an hour; the console remembers those that it has read, and drains and departures that it has seen, while it runs. Older entries are the last changes of conditions.</p>`;
}

function Entry({ h, clusters }) {
  const time = new Date(h.time);
  const about = h.namespace ? `${h.namespace}/${h.name}` : h.name;
  const tone = h.warning ? "warn" : "faint";
  return html`<li class=${"happened" + (h.warning ? " warn" : "")}>
    <time datetime=${h.time} title=${time.toLocaleString("en")}>${time.toLocaleTimeString("en-GB")} <span class="faint">${span(serverNow() - time)} ago</span></time>
    <div><span class="problemhead">${h.warning && html`<${Icon} name="alert" label="Warning" />`}<b>${h.what === "MemberCluster" && clusters.some((c) => c.name === h.name)
      ? html`<a href=${to("map", [], { cluster: h.name })}>${about}</a>` : about}</b> <${Tag} tone=${tone}>${h.reason}<//>
      <span class="faint">${h.what !== "MemberCluster" && h.what}${h.cluster && h.cluster !== h.name && ` in ${h.cluster}`}${h.count > 1 && ` · ${h.count} times`}</span></span>
      <p>${h.message}</p></div>
  </li>`;
}
