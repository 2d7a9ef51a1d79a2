// Problems: everything that is known to be wrong, the most urgent first, each with its cure and a command to copy.
import { html } from "./html.js";
import { here, to } from "./address.js";
import { Age, Command, Icon, Outcome, Search, Tag, Toggle } from "./parts.js";
import { count, finder, given, inShell, ofHub } from "./words.js";

const kinds = { Source: "Sources", Hub: "Hub", Doctor: "Checks", MemberCluster: "Clusters", Namespace: "Namespaces", Service: "Services" };
const kindOf = (p) => (kinds[p.what] ? p.what : "Service");

export function ProblemsView({ address, map, problems }) {
  const { params } = address;
  const has = finder(params.get("find"));
  const only = params.get("only");
  if (!problems.data) return html`<h1 tabindex="-1">Problems</h1><${Outcome} got=${problems} what="the problems" />`;
  const { items, total, urgent, answered = [] } = problems.data;
  const alike = Map.groupBy(problems.data.unchecked ?? [], (p) => p.reason + p.message); // the same of several clusters is one
  const unchecked = [...alike.values()].map((list) => (list.length > 1 ? { ...list[0], clusters: list.map((p) => p.name) } : list[0]));
  const found = [...items, ...answered, ...unchecked].filter((p) => has(p.namespace && p.namespace + "/" + p.name, p.name, p.what, p.reason, p.message, p.cure, p.cluster));
  const shown = found.filter((p) => only === null || kindOf(p) === only);
  const groups = [["urgent", "Urgent", shown.filter((p) => p.urgent && items.includes(p))], ["later", "Less urgent", shown.filter((p) => !p.urgent && items.includes(p))],
    ["answered", "No problems: these are answered", shown.filter((p) => answered.includes(p))], ["unchecked", "Not checked", shown.filter((p) => unchecked.includes(p))]].filter(([, , list]) => list.length);
  const all = items.length + answered.length + unchecked.length;
  const lead = total === 0 ? "None is known." : `${count(total, "problem")}, ${urgent} urgent${total > items.length ? `; the first ${items.length} are shown` : ""}`;
  return html`
    <div class="viewhead"><h1 tabindex="-1">Problems</h1><p class="lead">${lead}</p></div>
    ${all > 0 && html`<div class="bar">
      <${Search} label="Find: a name, a cluster, a word" params=${params} />
      <div class="filters" role="group" aria-label="Show only">${Object.entries(kinds).map(([id, name]) => [id, name, found.filter((p) => kindOf(p) === id).length]).filter(([id, , n]) => n > 0 || id === only).map(([id, name, n]) => html`
        <${Toggle} key=${id} on=${only === id} values=${{ only: only === id ? null : id }}><b>${n}</b> ${name}<//>`)}</div>
    </div>`}
    ${all > 0 && shown.length === 0 && html`<p class="notice">No problem matches.</p>`}
    ${groups.map(([id, name, list]) => html`<section key=${id} aria-labelledby=${id}><h2 id=${id}>${name} <span class="faint">${list.length}</span></h2>
      <ul class="problems">${list.map((p) => html`<${Problem} key=${[p.what, p.namespace, p.name, p.reason, p.context, p.what === "Doctor" && p.message].join()} p=${p} map=${map.data} level=${id} />`)}</ul></section>`)}
    <p class="faint small above">The console reads the hub, and the members that <code>--context</code> names. Every five minutes it makes the checks of <code>clusterset doctor</code>, except those of rights and of the agent's token, and those that take a DNS server's address.</p>`;
}

const levels = { urgent: ["bad", "alert", "Urgent"], later: ["warn", "conflict", "Less urgent"], answered: ["calm", "conflict", "No problem"], unchecked: ["calm", "unknown", "Not checked"] };

function Problem({ p, map, level }) {
  const [tone, icon, label] = levels[level];
  return html`<li class=${"problem " + tone}>
    <div class="problemhead"><${Icon} name=${icon} label=${label} /><b>${p.clusters ? p.clusters.join(", ") : html`<${About} p=${p} />`}</b> <${Tag} tone=${tone}>${p.reason}<//>
      <span class="faint">${p.what !== "Exports" && p.what !== "MemberCluster" && p.what}${!p.clusters && p.cluster && p.cluster !== p.name && html` in ${p.cluster}`}${p.checked && html`, checked <${Age} time=${p.checked} />`}</span></div>
    <p>${capital(p.message)}.</p>
    ${p.cure && html`<p><b>What to do:</b> ${p.cure}.</p>`}
    ${p.paste && html`<${Command} text=${p.paste} />`}
    ${map && command(p, map) && html`<${Command} text=${command(p, map)} />`}
  </li>`;
}

/** command cures a problem, or shows more about it, in a shell; undefined if there is none. */
function command(p, { flags, sources }) {
  const hub = given(flags, ...ofHub), members = given(flags, "kubeconfig");
  const kubectl = (...words) => hub.length > 0 && inShell("kubectl", ...words, ...hub.map((w) => w.replace(/^--hub-/, "--")));
  const isMember = (s) => s.role === "member" && (s.context === p.context && (s.cluster ?? "") === (p.cluster ?? ""));
  const from = sources.find(isMember) ?? sources.find((s) => s.role === "member" && s.cluster === p.name);
  const member = from && ((...words) => inShell(...words, ...members, "--context", from.context));
  const rejoin = p.cure?.startsWith(`clusterset join ${p.name} --rejoin`);
  switch (true) {
    case p.what === "Doctor": return inShell("clusterset", "doctor", ...(from ? [...members, "--context", from.context] : []), ...hub);
    case p.what === "Source": return member ? member("kubectl", "get", "--raw", "/readyz") : kubectl("get", "--raw", "/readyz");
    case p.reason === "MissingElsewhere": case p.reason === "Held": return undefined; // the console doesn't read these clusters, and the ServiceExport is gone
    case p.what === "Namespace": return member?.("kubectl", "create", "namespace", p.name);
    case rejoin && hub.length > 0 && !!member: return inShell("clusterset", "join", p.name, "--rejoin", ...members, "--context", from.context, ...hub);
    case p.what === "MemberCluster": return member ? member("clusterset", "doctor") : kubectl("describe", "membercluster", p.name);
    case p.what === "Hub": return kubectl("get", "memberclusters");
    case p.what === "Exports": return hub.length > 0 && inShell("clusterset", "services", "--namespace", p.namespace, ...hub);
    case !!p.namespace && sources.some(isMember): return member("kubectl", "describe", p.what.toLowerCase(), p.name, "--namespace", p.namespace);
  }
}

const capital = (text = "") => text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, "");

/** About names what a problem is about, and links to it. */
function About({ p }) {
  if (p.namespace) return html`<a href=${to("service", [p.namespace, p.name])}>${p.namespace}/${p.name}</a>`;
  if (p.what === "MemberCluster" || p.what === "Doctor" && p.cluster) return html`<a href=${to("map", [], { cluster: p.name })}>${p.name}</a>`;
  return p.name;
}
