// The page's whole state is the fragment of its address: #/VIEW/PART…?name=value&…, so that it can be shared and the browser's back and
// forward buttons work.
import { store } from "./store.js";

// Kept from view to view: the changes of "what if", the theme, whether single keys are shortcuts.
const kept = ["if", "theme", "keys"];

const current = store(parse(location.hash));

/** decode decodes a part of an address. */
export function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a stray %
  }
}

function parse(hash) {
  const text = hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const [view, ...rest] = path.split("/").map(decode);
  return { view: view || "map", rest, params: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)) };
}

function format(view, rest, params) {
  const query = params.toString();
  return "#/" + [view, ...rest].map(encodeURIComponent).join("/") + (query ? "?" + query : "");
}

// set returns params with others: null or "" removes one, a list sets several of a name.
function set(params, values) {
  const all = new URLSearchParams(params);
  for (const [name, value] of Object.entries(values ?? {})) {
    all.delete(name);
    for (const v of Array.isArray(value) ? value : [value]) {
      if (v !== null && v !== undefined && v !== "") all.append(name, v);
    }
  }
  return all;
}

/** to is the address of a view, as an href. It keeps what belongs to all views. */
export function to(view, rest = [], values = {}) {
  const params = new URLSearchParams();
  for (const name of kept) for (const v of current.get().params.getAll(name)) params.append(name, v);
  return format(view, rest, set(params, values));
}

/** here is the address of this view with other parameters, as an href. */
export function here(values) {
  const { view, rest, params } = current.get();
  return format(view, rest, set(params, values));
}

/** param is a parameter of the address as it is now, which a handler of an event needs: what was rendered may be a moment older. */
export function param(name) {
  return parse(location.hash).params.get(name);
}

/** go goes to an address. With replace, "back" doesn't return to the one before. */
export function go(href, { replace = false } = {}) {
  if (href === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  moved();
}

function moved() {
  current.set(parse(location.hash));
}
addEventListener("popstate", moved); // fragments typed by hand too

/** useAddress returns the address: view, rest (the parts after the view) and params. */
export const useAddress = current.use;
