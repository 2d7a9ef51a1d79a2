// The frame around the views: navigation, what is wrong with the sources, the changes of "what if", and the shortcuts.
import { html, render, useEffect, useMemo, useRef } from "./html.js";
import { go, here, param, to, useAddress } from "./address.js";
import { chips, fromAddress, toParameter, toWords } from "./changes.js";
import { serverNow, setServerTime, useApi, useConnection } from "./live.js";
import { Announcer, announce, Choice, Effect, Icon, useClock } from "./parts.js";
import { severity, sourceName, span } from "./words.js";
import { LinksView } from "./links.js";
import { MapView } from "./map.js";
import { ProblemsView } from "./problems.js";
import { ServicesView } from "./services.js";
import { ServiceView } from "./service.js";
import { WhatIfView } from "./whatif.js";

const views = {
  map: ["Map", MapView, "1"], services: ["Services", ServicesView, "2"], problems: ["Problems", ProblemsView, "3"], links: ["Links", LinksView, "4"], whatif: ["What if", WhatIfView, "5"],
  service: ["Service", ServiceView],
};
const themes = { "": "Auto", light: "Light", dark: "Dark" };

function App() {
  const address = useAddress();
  const { params } = address;
  const words = params.getAll("if").join("\n");
  const changes = useMemo(() => fromAddress(params), [words]);
  const parameter = toParameter(changes);
  const map = useApi("api/map" + (parameter && "?" + parameter), { key: "map" });
  const whatif = useApi(parameter && "api/whatif?" + parameter, { key: parameter });
  const problems = useApi("api/problems", { key: "problems" });
  const [name, View] = views[address.view] ?? ["Map", MapView];

  const theme = params.get("theme") ?? "";
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  useEffect(() => {
    document.title = `${address.view === "service" ? address.rest.join("/") : name} · clusterset console`;
  }, [address.view, address.rest.join("/")]);
  useFocusOnView(address);
  useShortcuts();
  useEffect(() => { if (map.data) setServerTime(map.data.time); }, [map.data]);
  useSpokenPhases(map.data);
  useEffect(() => { if (whatif.data) announce(whatif.data.summary.text); }, [whatif.data?.summary.text]);

  const shared = { address, changes, parameter, map, whatif, problems };
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${to("map")}><img src="icon.svg" alt="" width="22" height="22" /><span>clusterset <b>console</b></span></a>
      <nav aria-label="Views">
        ${Object.entries(views).filter(([, v]) => v[2]).map(([id, [text, , key]]) => html`
          <a key=${id} href=${to(id)} aria-current=${address.view === id || (id === "services" && address.view === "service") ? "page" : undefined} aria-keyshortcuts=${key}>
            ${text}${id === "whatif" && changes.length > 0 && html` <span class="count" aria-label=${`${changes.length} changes`}>${changes.length}</span>`}${id === "problems" && problems.data?.urgent > 0 && html` <span class="count wrong" aria-label=${`${problems.data.urgent} urgent`}>${problems.data.urgent}</span>`}
          </a>`)}
      </nav>
      <div class="tools">
        <${Liveness} map=${map.data} />
        <${Choice} label="Theme" name="theme" value=${theme} options=${Object.entries(themes)} />
        <button class="quiet" onClick=${showHelp} aria-keyshortcuts="?">Keys</button>
      </div>
    </header>
    <${Banner} map=${map} />
    ${changes.length > 0 && html`<${ChangesBar} changes=${changes} whatif=${whatif} map=${map} />`}
    <main id="main" tabindex="-1"><${View} key=${address.view + address.rest.join("/")} ...${shared} /></main>
    <${Help} singleKeys=${params.get("keys") !== "off"} />
    <${Announcer} />`;
}

// Links within the page change the address without asking the server.
document.addEventListener("click", (e) => {
  const link = e.target.closest?.("a[href^='#/']");
  if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  e.preventDefault();
  if (link.matches("[data-close]")) returnFocus(link.closest(".panel"));
  go(link.getAttribute("href"));
});

/** returnFocus moves the focus out of a panel that closes: to what opened it, or near to that. */
function returnFocus(panel) {
  const has = document.activeElement;
  if (has !== document.body && !panel.contains(has)) return;
  const to = [".tile.chosen", '.matrix [aria-selected="true"]', '.matrix [tabindex="0"]', "main h1"].map((s) => document.querySelector(s)).find(Boolean);
  to?.focus({ preventScroll: true });
}

/** useFocusOnView moves the focus to the heading of a view that was navigated to, and to the top of the page. */
function useFocusOnView(address) {
  const was = useRef();
  const now = address.view + "/" + address.rest.join("/");
  useEffect(() => {
    if (was.current !== undefined && was.current !== now) {
      scrollTo(0, 0);
      document.querySelector("main h1")?.focus({ preventScroll: true });
    }
    was.current = now;
  }, [now]);
}

/** Liveness says how fresh the page is. */
function Liveness({ map }) {
  const connection = useConnection();
  const away = map?.sources?.filter((s) => s.state === "Away" || s.state === "Refused") ?? [];
  const state = !connection.up ? "Stopped" : away.length ? "Partly live" : map ? "Live" : "Starting";
  return html`<span class=${"liveness " + (connection.up && !away.length ? "good" : "bad")}><${Icon} name=${connection.up ? (away.length ? "suspect" : "ready") : "expired"} />${state}</span>`;
}

/** Banner says what is away, since when, and how old that makes what is shown. */
function Banner({ map }) {
  const connection = useConnection();
  useClock();
  const lines = [];
  const since = (time) => span(serverNow() - Date.parse(time));
  if (connection.ended) {
    lines.push(["The console has been started again, and doesn't know this window any more.", "Open the address that it printed."]);
  } else if (!connection.up) {
    lines.push([`The console's server doesn't answer. What you see is ${span(Date.now() - connection.since)} old.`, "Run clusterset console again; this page continues once the server is back on the same port."]);
  }
  const sources = map.data?.sources ?? [];
  const wrong = sources.filter((s) => s.state === "Away" || s.state === "Refused");
  for (const s of wrong.slice(0, 3)) {
    lines.push([`${sourceName(s)} ${s.state === "Refused" ? "refuses access" : "doesn't answer"}.` + (s.lastAnswer ? ` What is shown of it is ${since(s.lastAnswer)} old.` : " Nothing is known of it."), s.error]);
  }
  if (wrong.length > 3) lines.push([`${wrong.length - 3} more of ${sources.length} sources are away.`, html`<a href=${to("map", [], { sources: "1" })}>See all sources</a>`]);
  if (map.data?.expiryPaused) {
    lines.push(["Most clusters fell silent together, so the hub lets none of them expire.", "The cause is probably the hub or the network to it."]);
  }
  if (map.data?.notEnforced) lines.push(["All clusters can read all exports, although MemberClusters name communities.", `Not enforced: ${map.data.notEnforced}.`]);
  if (map.error && !map.data) lines.push([map.error, ""]);
  return html`<div class="banners" role="status" aria-label="State of the sources">${lines.map(([text, more], i) => html`
    <p key=${i} class="banner"><${Icon} name="alert" /><span><b>${text}</b> ${more}</span></p>`)}</div>`;
}

/** ChangesBar shows the changes on every view, each with a link that removes it, and their effects. */
function ChangesBar({ changes, whatif, map }) {
  const error = whatif.error ?? map.error;
  const summary = whatif.data?.summary;
  return html`<section class="whatifbar" aria-label="What if">
    <div class="whatifchanges"><b><${Icon} name="what" /> What if</b>
      ${chips(changes).map((c, i) => html`<span class="chip" key=${i}>${c.title} <a href=${here({ if: c.without.map(toWords) })} aria-label=${`Take back: ${c.title}`}><${Icon} name="cross" /></a></span>`)}
      <a class="quiet" href=${here({ if: null })}>Clear</a>
    </div>
    <div class="whatifsum" aria-busy=${whatif.busy ? "true" : "false"}>
      ${error ? html`<span class="bad" role="alert"><${Icon} name="alert" /> ${error}</span>`
        : !summary ? html`<span class="faint">Computing…</span>`
        : html`<a href=${to("whatif")}>${summary.changed.toLocaleString("en")} of ${summary.services.toLocaleString("en")} services change</a>
            ${severity.filter((e) => summary.effects[e]).map((e) => html`<${Effect} key=${e} effect=${e} n=${summary.effects[e]} />`)}`}
    </div>
  </section>`;
}

/** useSpokenPhases announces clusters whose phase or drain changed. */
function useSpokenPhases(map) {
  const was = useRef(new Map());
  useEffect(() => {
    if (!map) return;
    const now = new Map(map.clusters.map((c) => [c.name, c.phase + (c.drain ? ", drained" : "")]));
    const said = [];
    if (was.current.size) for (const [name, is] of now) if (was.current.get(name) !== is) said.push(`${name} is ${is}`);
    if (said.length) announce(said.length > 3 ? `${said.length} clusters changed` : said.join(". "));
    was.current = now;
  }, [map]);
}

function showHelp() {
  document.getElementById("help").showModal();
}

function useShortcuts() {
  useEffect(() => {
    const f = (e) => {
      if (e.altKey || e.ctrlKey || e.metaKey || e.defaultPrevented) return;
      const typing = e.target.closest?.("input, select, textarea, dialog");
      if (e.key === "Escape" && !e.target.closest?.("dialog")) {
        const close = document.querySelector("main [data-close]");
        if (close && !typing) close.click();
        return;
      }
      if (typing || param("keys") === "off") return;
      const view = Object.entries(views).find(([, v]) => v[2] === e.key);
      if (view) go(to(view[0]));
      else if (e.key === "/") {
        const field = document.getElementById("search");
        if (!field) return;
        field.focus();
        field.select();
      } else if (e.key === "?") showHelp();
      else if (e.key === "t") {
        const ids = Object.keys(themes);
        go(here({ theme: ids[(ids.indexOf(param("theme") ?? "") + 1) % ids.length] }), { replace: true });
      } else return;
      e.preventDefault();
    };
    document.addEventListener("keydown", f);
    return () => document.removeEventListener("keydown", f);
  }, []);
}

function Help({ singleKeys }) {
  const keys = [
    ["1 2 3 4 5", "Map, Services, Problems, Links, What if"], ["/", "go to the search field"], ["Tab", "next part of the page"],
    ["↑ ↓ ← → Home End", "move in the map, a list or a matrix"], ["Enter", "open what has the focus"], ["Esc", "close the details, or this"], ["t", "theme: auto, light, dark"], ["?", "this"],
  ];
  return html`<dialog id="help" aria-labelledby="help-title" onClick=${(e) => e.target.id === "help" && e.target.close()}>
    <h2 id="help-title">Keys</h2>
    <dl class="keys">${keys.map(([k, text]) => html`<div key=${k}><dt>${k.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${text}</dd></div>`)}</dl>
    <p><label><input type="checkbox" checked=${singleKeys} onChange=${(e) => go(here({ keys: e.target.checked ? null : "off" }), { replace: true })} /> Single keys are shortcuts</label></p>
    <p class="faint">The address contains all that the page shows: copy it to share what you see. The page changes nothing, and sends requests only to the console on this machine.</p>
    <button onClick=${(e) => e.target.closest("dialog").close()}>Close</button>
  </dialog>`;
}

render(html`<${App} />`, document.getElementById("app"));
