// What the server says: JSON on request, and by server-sent events when to ask again.
import { useEffect, useState } from "./html.js";
import { store } from "./store.js";

const listeners = new Set(); // of changes
const changed = () => { for (const f of listeners) f(); };

/** connection: whether the server is there, since when it isn't, and whether it no longer knows us. */
const connection = store({ up: true, since: Date.now(), ended: false });
export const useConnection = connection.use;

/** skew is the server's clock less ours, in ms. */
let skew = 0;
export const serverNow = () => Date.now() + skew;
export function setServerTime(time) {
  const at = Date.parse(time);
  if (!Number.isNaN(at)) skew = at - Date.now();
}

function connect(up, ended = false) {
  const was = connection.get();
  if (up !== was.up || ended !== was.ended) connection.set({ up, ended, since: Date.now() });
}

let source;
export function listen() {
  source?.close();
  source = undefined;
  if (document.hidden) return;
  const stream = new EventSource("api/events");
  source = stream;
  stream.onmessage = () => {
    connect(true);
    changed();
  };
  stream.onopen = () => {
    if (!connection.get().up) changed();
    connect(true);
  };
  stream.onerror = async () => {
    const closed = stream.readyState === EventSource.CLOSED;
    const ended = closed && (await refused());
    connect(false, ended);
    if (closed && !ended) setTimeout(listen, 2000);
  };
}

// A browser opens six connections to a server at a time, for all tabs. A tab that nobody sees gives the one of its stream back.
document.addEventListener("visibilitychange", () => {
  listen();
  if (!document.hidden) changed();
});

/** refused says whether the server is there and doesn't know this session. */
async function refused() {
  try {
    return (await fetch("api/map")).status === 401;
  } catch {
    return false;
  }
}

async function get(url, signal) {
  const response = await fetch(url, { signal });
  if (response.status === 401) connect(false, true);
  const body = await response.json().catch((error) => {
    if (response.ok) throw error; // cut off
    return { error: `${response.status} ${response.statusText}` };
  });
  if (!response.ok) throw Object.assign(new Error(body.error ?? response.statusText), { status: response.status });
  return body;
}

/**
 * useApi asks for a URL (null: nothing), again when something changes unless once is set, and keeps the last answer while it asks, as long as
 * the key stays the same. A request for another URL ends the one before.
 */
export function useApi(url, { key = "", once = false } = {}) {
  const [got, set] = useState({});
  useEffect(() => {
    if (!url) return set({});
    const aborter = new AbortController();
    let busy = false, again = false;
    const load = async () => {
      busy = true;
      again = false;
      set((was) => ({ ...(was.key === key ? was : { key }), busy: true }));
      try {
        const data = await get(url, aborter.signal);
        set({ key, url, data });
      } catch (error) {
        if (aborter.signal.aborted) return;
        // Without a server or a session the last answer stays; the banner says how old it is.
        const gone = !error.status || error.status === 401;
        set((was) => ({ key, url, data: gone ? was.data : undefined, error: error.message }));
      }
      busy = false;
      if (again) load();
    };
    const reload = () => {
      if (busy) again = true;
      else load();
    };
    if (!once) listeners.add(reload);
    load();
    return () => {
      aborter.abort();
      listeners.delete(reload);
    };
  }, [url, key]);
  return got.key === key ? got : {};
}

/** useTick renders again when something changes, and returns how often that was. */
export function useTick() {
  const [n, set] = useState(0);
  useEffect(() => {
    const f = () => set((was) => was + 1);
    listeners.add(f);
    return () => listeners.delete(f);
  }, []);
  return n;
}
export { get };
