// The matrix of a service: places are rows, exporting clusters are columns, a cell says what the place uses of the cluster.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { go, here } from "./address.js";
import { Effects, Icon } from "./parts.js";
import { between, rem, useWidth, useWindow } from "./rows.js";
import { phases, placeName, placeText, severity, tiers, ways } from "./words.js";

/** asked lists the ways to a service that lead to endpoints: not a name that resolves to the ClusterSetIP. */
function asked(answers) {
  return answers ? Object.keys(ways).filter((w) => answers[w] && !answers[w].byClusterSetIP && answers[w].result !== "NXDOMAIN") : [];
}

/** cell says what a row's answers use of a cluster. */
function cell(answers, cluster) {
  const by = [];
  let ready = 0, down = false, degraded = false;
  const all = asked(answers);
  for (const w of all) {
    const share = answers[w].clusters?.find((c) => c.cluster === cluster);
    if (!share) continue;
    by.push(w);
    ready = Math.max(ready, share.ready);
    down ||= !!share.down;
    degraded ||= !!answers[w].degraded;
  }
  return { by, ready, down, degraded, all: by.length === all.length };
}

/** unseen is why the clusters of a row don't see a column's export, as clusterset explain says it; "" if one of them does. */
export function unseen(column, row) {
  const all = row.places.map((p) => column.unseen?.find((u) => u.from.includes(p.cluster)));
  return all.every(Boolean) ? all[0].why.replace("{exporter}", column.name).replace("{viewer}", row.places[0].cluster) : "";
}

/** apart reports whether a column's cluster is in another network than all clusters of a row. */
function apart(column, row, networks) {
  return !!networks && row.places.every((p) => (networks[p.cluster] ?? "") !== (networks[column.name] ?? ""));
}

/** compare is a cell before and after the changes, with the networks that the clusters are in. */
export function compare(row, column, networks = {}) {
  const was = { ...cell(row.before, column.name), unseen: unseen(column, row), apart: apart(column, row, networks.was) };
  const is = { ...(row.after ? cell(row.after, column.name) : was), unseen: unseen(column.after ?? column, row), apart: apart(column, row, networks.is) };
  return { was, is, appears: !was.by.length && is.by.length > 0, goes: was.by.length > 0 && !is.by.length };
}

/** inWords is a cell in words. */
function inWords({ was, is, appears, goes }, cluster) {
  const by = (c) => c.by.map((w) => ways[w].name).join(" and ");
  if (goes) return `${cluster}: would no longer be used by ${by(was)}${is.unseen && `: ${is.unseen}`}`;
  if (!is.by.length) return is.unseen ? `${cluster}: not visible: ${is.unseen}` : `${cluster}: not used${is.apart ? ", and in another network" : ""}`;
  return `${cluster}: ${appears ? "would be used" : "used"} by ${by(is)}, ${is.ready} ready${is.ready !== was.ready && !appears ? ` instead of ${was.ready}` : ""}${is.apart ? ", at addresses for other networks" : ""}${is.degraded ? ", as the last resort" : ""}${is.down ? ", but off" : ""}`;
}

function Cell({ state }) {
  const { was, is, appears, goes } = state;
  if (goes) return html`<span class="mark gone" aria-hidden="true"><${Icon} name="minus" />${was.ready}</span>`;
  if (!is.by.length && is.unseen) return html`<span class="mark hid" aria-hidden="true"><${Icon} name="hidden" /></span>`;
  if (!is.by.length) return html`<span class="mark none" aria-hidden="true">${is.apart ? html`<${Icon} name="network" />` : "·"}</span>`;
  const kind = is.down ? "dead" : is.degraded ? "last" : is.all ? "used" : "some";
  return html`<span class=${`mark ${kind}${appears ? " new" : ""}`} aria-hidden="true">${appears ? html`<${Icon} name="plus" />` : is.down ? html`<${Icon} name="power" />` : is.degraded ? html`<${Icon} name="alert" />` : is.apart ? html`<${Icon} name="network" />` : ""}${
    !appears && is.ready !== was.ready && html`<s>${was.ready}</s>`}${is.ready}${!is.all && html`<small>${is.by.map((w) => ways[w].short).join(" ")}</small>`}</span>`;
}

/** summary is what a row's answers come to, once for ways that agree. */
export function summary(answers) {
  if (!answers) return [];
  const lines = new Map();
  for (const w of Object.keys(ways)) {
    const a = answers[w];
    if (!a) continue;
    const text = a.byClusterSetIP ? "the ClusterSetIP" : a.result !== "NOERROR" ? a.result : `${a.ready} ${a.degraded ? "at the last resort" : tiers[a.tier] ?? ""}`;
    if (!lines.has(text)) lines.set(text, []);
    lines.get(text).push(ways[w].short);
  }
  return [...lines].map(([text, by]) => ({ text, by: by.join(", ") }));
}

export function Matrix({ rows, columns, networks, at, by }) {
  const ref = useRef();
  const room = useWidth(ref);
  const r = rem();
  const narrow = room < 56 * r; // on a small screen, or beside a panel
  const height = 3.25 * r, usual = 6.5 * r, first = (narrow ? 9 : 17) * r, second = (narrow ? 10 : 13) * r;
  const before = first + second;
  const fit = Math.floor((room - before) / usual); // columns that are seen at once; none is cut
  const width = fit > 0 && fit < columns.length ? (room - before) / fit : usual;
  const total = before + columns.length * width;
  const range = useWindow(ref, rows.length + 1, height, Math.ceil(total / width), width);
  const left = Math.max(0, Math.floor(range.left - before / width));
  const right = Math.min(columns.length, Math.max(left, range.right));
  const [focus, setFocus] = useState({ row: 0, column: 0 });
  const wanted = useRef(false);
  const now = { row: Math.min(focus.row, rows.length - 1), column: Math.min(focus.column, columns.length) };

  useLayoutEffect(() => {
    if (!wanted.current) return;
    const e = ref.current.querySelector(`[data-at="${now.row},${now.column}"]`);
    if (!e) return;
    wanted.current = false;
    e.focus({ preventScroll: true });
  });
  useEffect(() => { // an address that names a cell
    const row = rows.findIndex((x) => x.places.some((p) => placeText(p) === at));
    if (row < 0) return;
    const column = columns.findIndex((c) => c.name === by) + 1;
    setFocus({ row, column });
    show(row, column);
  }, [at, by, rows.length]);

  function show(row, column) {
    const e = ref.current;
    const top = row * height, x = before + (column - 1) * width;
    if (top < e.scrollTop) e.scrollTop = top;
    else if (top + 2 * height > e.scrollTop + e.clientHeight) e.scrollTop = top + 2 * height - e.clientHeight;
    if (column === 0) e.scrollLeft = 0;
    else if (x < e.scrollLeft + first) e.scrollLeft = x - first;
    else if (x + width > e.scrollLeft + e.clientWidth) e.scrollLeft = x + width - e.clientWidth;
  }
  const onKeyDown = (e) => {
    if (e.altKey || e.metaKey) return;
    const page = Math.max(1, Math.floor(ref.current.clientHeight / height) - 2);
    const to = { ...now };
    switch (e.key) {
      case "ArrowDown": to.row++; break;
      case "ArrowUp": to.row--; break;
      case "ArrowRight": to.column++; break;
      case "ArrowLeft": to.column--; break;
      case "PageDown": to.row += page; break;
      case "PageUp": to.row -= page; break;
      case "Home": to.column = 0; if (e.ctrlKey) to.row = 0; break;
      case "End": to.column = columns.length; if (e.ctrlKey) to.row = rows.length - 1; break;
      case "Enter": case " ": choose(now.row, now.column); e.preventDefault(); return;
      default: return;
    }
    e.preventDefault();
    to.row = Math.max(0, Math.min(rows.length - 1, to.row));
    to.column = Math.max(0, Math.min(columns.length, to.column));
    wanted.current = true;
    setFocus(to);
    show(to.row, to.column);
  };
  const choose = (row, column) => {
    const place = placeText(rows[row].places[0]), cluster = column > 0 ? columns[column - 1].name : null;
    go(here(at === place && (by ?? null) === cluster ? { at: null, by: null, ends: null } : { at: place, by: cluster }));
  };
  const rove = (row, column) => ({
    "data-at": row + "," + column, tabindex: row === now.row && column === now.column ? 0 : -1,
    onFocus: () => setFocus({ row, column }), onClick: () => choose(row, column),
  });
  const shownColumns = between(left, right, now.column - 1, columns.length);
  return html`<div class=${"matrixbox" + (range.more ? " more" : "")}><div class="matrix" ref=${ref} role="grid" aria-label="Places and the clusters that they use" aria-rowcount=${rows.length + 1} aria-colcount=${columns.length + 2} onKeyDown=${onKeyDown}
      style=${{ "--first": first + "px", "--second": second + "px" }}>
    <div class="matrixbody" style=${{ height: (rows.length + 1) * height + "px", width: total + "px" }} role="presentation">
      <div class="mrow mhead" role="row" aria-rowindex="1" style=${{ height: height + "px", width: total + "px" }}>
        <span class="mfirst" role="columnheader" aria-colindex="1">From</span>
        <span class="msecond" role="columnheader" aria-colindex="2">Answer: ready endpoints</span>
        ${shownColumns.map((c) => html`<span key=${columns[c].name} class="mcell" role="columnheader" aria-colindex=${c + 3} style=${{ left: before + c * width + "px", width: width + "px" }}><${Head} c=${columns[c]} /></span>`)}
      </div>
      ${between(range.from, Math.min(range.to, rows.length), now.row, rows.length).map((i) => {
        const row = rows[i];
        const chosen = row.places.some((p) => placeText(p) === at);
        return html`<div key=${placeText(row.places[0])} class=${`mrow${chosen ? " chosen" : ""}${row.after ? " changed" : ""}`} role="row" aria-rowindex=${i + 2} style=${{ top: (i + 1) * height + "px", height: height + "px", width: total + "px" }}>
          <span class="mfirst" role="rowheader" aria-colindex="1" aria-selected=${chosen && !by ? "true" : "false"} ...${rove(i, 0)}><${PlaceName} row=${row} narrow=${narrow} /></span>
          <span class="msecond" role="gridcell" aria-colindex="2"><${Answer} row=${row} /></span>
          ${shownColumns.map((c) => {
            const state = compare(row, columns[c], networks);
            return html`<span key=${columns[c].name} class=${"mcell" + (chosen && by === columns[c].name ? " chosen" : "")} role="gridcell" aria-colindex=${c + 3} aria-selected=${chosen && by === columns[c].name ? "true" : "false"}
              title=${inWords(state, columns[c].name)} style=${{ left: before + c * width + "px", width: width + "px" }} ...${rove(i, c + 1)}><span class="unseen">${inWords(state, columns[c].name)}</span><${Cell} state=${state} /></span>`;
          })}
        </div>`;
      })}
    </div>
  </div></div>`;
}

function Head({ c }) {
  const at = c.after ?? c;
  const p = phases[c.phase] ?? phases.Unknown;
  const down = c.down || at.down;
  const off = down ? "power" : c.leaves ? "minus" : c.joins ? "plus" : at.drain ? "drain" : c.phase !== "Ready" ? p.icon : "";
  const text = down ? "off" : c.leaves ? "no longer" : c.joins ? "new" : at.drain ? "drained" : c.phase !== "Ready" ? c.phase : `${c.ready} ready`;
  return html`<span class="mname" title=${c.name}>${c.name}</span><span class=${"mstate" + (off ? " odd" : "")}>${off && html`<${Icon} name=${off} />`} ${text}</span>`;
}

function PlaceName({ row }) {
  const [p, ...more] = row.places;
  return html`<span class="mplace"><b>${p.cluster}</b>${more.length > 0 && html` <span class="faint">and ${more.length} more</span>`}</span><span class="mwhere faint">${[p.zone, p.region].filter(Boolean).join(" / ") || "zone unknown"}</span>`;
}

function Answer({ row }) {
  const was = summary(row.before), is = row.after ? summary(row.after) : was;
  const worst = Object.values(row.effects ?? {}).flat().sort((a, b) => severity.indexOf(a) - severity.indexOf(b))[0];
  const main = is.filter((l) => l.text !== "the ClusterSetIP");
  const shown = main.length ? main : is;
  return html`${worst && html`<${Effects} list=${[worst]} />`}${shown.slice(0, worst ? 1 : 2).map((l) => html`<span key=${l.text} class="aline" title=${is.map((x) => `${x.by}: ${x.text}`).join("; ")}>${l.text}${shown.length > 1 && html` <small>${l.by}</small>`}</span>`)}`;
}
