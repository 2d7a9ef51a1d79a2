// Small parts that several views use.
import { html, useEffect, useRef, useState } from "./html.js";
import { go, here } from "./address.js";
import { has, toWords, withCluster } from "./changes.js";
import { serverNow } from "./live.js";
import { effects, phases, span } from "./words.js";

// 16 × 16. Each meaning has a shape of its own, so that none depends on colour.
const dot = html`<circle cx="8" cy="8" r="5" fill="currentColor" />`;
const ring = html`<circle cx="8" cy="8" r="5.25" />`;
const shapes = {
  ready: dot,
  suspect: html`${ring}<path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor" />`,
  expired: html`${ring}<path d="m5.5 5.5 5 5m0-5-5 5" />`,
  unknown: html`<circle cx="8" cy="8" r="5.25" stroke-dasharray="2.2 2" />`,
  left: html`<path d="M7 3H3.5v10H7M6.5 8H13m-2.7-2.8L13 8l-2.7 2.8" />`,
  power: html`<path d="M8 2.5V8M4.9 4.6a4.9 4.9 0 1 0 6.2 0" />`,
  drain: html`<path d="M8 2.5v7M5 7l3 3 3-3M3.5 13h9" />`,
  undrain: html`<path d="M8 10V3M5 5.7l3-3 3 3M3.5 13h9" />`,
  move: html`<path d="M8 2v12M2 8h12M6.3 3.7 8 2l1.7 1.7M6.3 12.3 8 14l1.7-1.7M3.7 6.3 2 8l1.7 1.7M12.3 6.3 14 8l-1.7 1.7" />`,
  conflict: html`<path d="M8 2.5 14 13H2zM8 6.5v3M8 11v.6" />`,
  alert: html`${ring}<path d="M8 5v3.6M8 10.3v.7" />`,
  cross: html`<path d="m4 4 8 8m0-8-8 8" />`,
  check: html`<path d="m3.5 8.5 3 3 6-7" />`,
  plus: html`<path d="M8 3.5v9M3.5 8h9" />`,
  minus: html`<path d="M3.5 8h9" />`,
  out: html`<path d="M3 8h9.5M9 4.5 12.5 8 9 11.5" />`,
  far: html`<path d="m3 4.5 3.5 3.5L3 11.5m5-7L11.5 8 8 11.5M14 3.5v9" />`,
  less: html`<path d="M3 6h10l-5 5.5z" fill="currentColor" />`,
  more: html`<path d="M3 10.5h10L8 5z" fill="currentColor" />`,
  swap: html`<path d="M3 6h9.5M10 3.5 12.5 6M13 10H3.5M6 12.5 3.5 10" />`,
  policy: html`<path d="M3 5h10M3 11h10" /><circle cx="6" cy="5" r="1.7" fill="currentColor" /><circle cx="10.5" cy="11" r="1.7" fill="currentColor" />`,
  search: html`<circle cx="7" cy="7" r="4" /><path d="m10 10 3.5 3.5" />`,
  hidden: html`<path d="M2 8c3.2-4.7 8.8-4.7 12 0-3.2 4.7-8.8 4.7-12 0z" /><path d="M3 13.5 13 2.5" />`,
  network: html`<circle cx="8" cy="3.5" r="2" /><circle cx="3.5" cy="12.5" r="2" /><circle cx="12.5" cy="12.5" r="2" /><path d="M7 5.4 4.5 10.6M9 5.4l2.5 5.2M5.5 12.5h5" />`,
  group: html`<circle cx="6" cy="8" r="3.75" /><circle cx="10" cy="8" r="3.75" />`,
  what: html`<path d="M3 13c0-6 2-7.5 10-7.5M10 2.5l3 3-3 3" stroke-dasharray="2.6 1.8" />`,
  cut: html`<path d="M2 8h3.5m5 0H14M7 4.5 5.5 11.5m5-7L9 11.5" />`,
  copy: html`<path d="M6 6h7v7H6z" /><path d="M3.5 10V3H10" />`,
  limited: html`<path d="M4 13V6m4 7V3m4 10V8" /><path d="M2.5 4.5 13.5 11" />`,
};

export function Icon({ name, label }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" role=${label ? "img" : undefined} aria-label=${label}
    aria-hidden=${label ? undefined : "true"}>${shapes[name]}</svg>`;
}

/** Tag is an icon and a word in a colour. */
export function Tag({ icon, tone = "calm", title, children }) {
  return html`<span class=${"tag " + tone} title=${title}>${icon && html`<${Icon} name=${icon} />`}${children}</span>`;
}

export function Phase({ phase }) {
  const p = phases[phase] ?? phases.Unknown;
  return html`<${Tag} icon=${p.icon} tone=${p.tone} title=${p.text}>${phase || "Unknown"}<//>`;
}

export function Effect({ effect, n }) {
  const e = effects[effect] ?? { word: effect, icon: "swap", tone: "calm" };
  return html`<${Tag} icon=${e.icon} tone=${e.tone} title=${e.text}>${n === undefined ? "" : html`<b>${n.toLocaleString("en")}</b> `}${e.word}<//>`;
}

/** Effects shows the worst effects of a service. */
export function Effects({ list = [] }) {
  return html`<span class="effects">${list.map((e) => html`<${Effect} key=${e} effect=${e} />`)}</span>`;
}

// One timer for all ages.
const aged = new Set();
setInterval(() => { for (const f of aged) f((n) => n + 1); }, 1000);

/** useClock renders again each second. */
export function useClock() {
  const [, again] = useState(0);
  useEffect(() => {
    aged.add(again);
    return () => aged.delete(again);
  }, []);
}

/** Age says how long ago a time is. */
export function Age({ time }) {
  useClock();
  const at = Date.parse(time);
  if (Number.isNaN(at)) return html`<span>never</span>`;
  return html`<time dateTime=${time} title=${new Date(at).toLocaleString()}>${span(serverNow() - at)} ago</time>`;
}

/** Outcome says that an answer is awaited, or what went wrong. */
export function Outcome({ got, what }) {
  if (got.error) return html`<p class="notice bad" role="alert"><${Icon} name="alert" /> ${got.error}</p>`;
  if (!got.data) return html`<p class="loading">Reading ${what}…</p>`;
  return null;
}

/** Search is a text field for a parameter of the address. */
export function Search({ label, params, name = "find" }) {
  const ref = useRef();
  const value = params.get(name) ?? "";
  useEffect(() => {
    if (ref.current && ref.current !== document.activeElement) ref.current.value = value;
  }, [value]);
  return html`<span class="search"><${Icon} name="search" /><input id="search" ref=${ref} type="search" aria-label=${label} placeholder=${label} spellcheck="false"
    autocomplete="off" defaultValue=${value} onInput=${(e) => go(here({ [name]: e.target.value }), { replace: true })} /></span>`;
}

/** Press is a link that is pressed or not, like a button. */
export function Press({ on, ...props }) {
  return html`<a role="button" aria-pressed=${on ? "true" : "false"} onKeyDown=${(e) => e.key === " " && (e.preventDefault(), e.currentTarget.click())} ...${props} />`;
}

/** Toggle is a Press for parameters of the address. */
export function Toggle({ on, values, children, title }) {
  return html`<${Press} class="toggle" on=${on} title=${title} href=${here(values)}>${children}<//>`;
}

/** Choice has one Press for each of several values of a parameter. options are its values, each with a text and a title. */
export function Choice({ label, name, usual, value, options, kind = "" }) {
  return html`<span class=${"segments" + kind} role="group" aria-label=${label}>${options.map(([id, text, title]) => html`
    <${Press} key=${id} on=${id === value} title=${title} href=${here({ [name]: id === usual ? null : id })}>${text}<//>`)}</span>`;
}

/** Table is a table that scrolls in its own box. */
export function Table({ label, head, children, ...props }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table ...${props}>
    <thead><tr>${head.map((h, i) => html`<th key=${i} scope="col">${h}</th>`)}</tr></thead><tbody>${children}</tbody></table></div>`;
}

/** More is a button for a list of which limit things are shown. */
export function More({ limit, step, total, set }) {
  return total > limit && html`<p class="above"><button onClick=${() => set(limit + step)}>Show ${Math.min(step, total - limit)} more of ${total}</button></p>`;
}

/** Toggles are changes of a cluster that "what if" has or hasn't. */
export function Toggles({ c, kinds, changes, kind: style, label }) {
  return kinds.map(([kind, icon]) => html`<${Press} key=${kind} class=${style} on=${has(changes, kind, c.name)} aria-label=${label && `${kind} ${c.name}`}
    href=${here({ if: withCluster(changes, kind, c.name).map(toWords) })}><${Icon} name=${icon} /> ${kind}<//>`);
}

/** Command is text for a shell, with a button that copies it. */
export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    announce("Copied");
    setTimeout(() => setCopied(false), 2000);
  };
  return html`<div class="command"><pre tabindex="0">${text}</pre><button onClick=${copy} aria-label=${`Copy: ${text}`}><${Icon} name=${copied ? "check" : "copy"} /> ${copied ? "Copied" : "Copy"}</button></div>`;
}

let announcer;
/** announce tells a screen reader. */
export function announce(text) {
  if (announcer) announcer.textContent = text;
}
export function Announcer() {
  return html`<div class="unseen" role="status" aria-live="polite" ref=${(e) => { announcer = e; }}></div>`;
}
