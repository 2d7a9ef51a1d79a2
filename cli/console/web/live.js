// What the server says: JSON on request, again every few seconds while somebody sees the page.
import { useEffect, useState } from "./html.js";
import { store } from "./store.js";

const every = 3000; // ms between two requests for the same

const listeners = new Set(); // of turns
const turn = () => { if (!document.hidden) for (const f of listeners) f(); };
setInterval(turn, every);
document.addEventListener("visibilitychange", turn);

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

export async function get(url, signal) {
  const response = await fetch(url, { signal }).catch((error) => {
    if (!signal?.aborted) connect(false);
    throw error;
  });
  connect(response.status !== 401, response.status === 401);
  const body = await response.json().catch((error) => {
    if (response.ok) throw error; // cut off
    return { error: `${response.status} ${response.statusText}` };
  });
  if (!response.ok) throw Object.assign(new Error(body.error ?? response.statusText), { status: response.status });
  return body;
}

/**
 * useApi asks for a URL (null: nothing), again at each turn unless once is set, and keeps the last answer while it asks, as long as the key
 * stays the same. A request for another URL ends the one before.
 */
export function useApi(url, { key = "", once = false } = {}) {
  const [got, set] = useState({});
  useEffect(() => {
    if (!url) return set({});
    const aborter = new AbortController();
    let busy = false;
    const load = async () => {
      if (busy) return;
      busy = true;
      set((was) => ({ ...(was.key === key ? was : { key }), busy: was.url !== url }));
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
    };
    if (!once) listeners.add(load);
    load();
    return () => {
      aborter.abort();
      listeners.delete(load);
    };
  }, [url, key]);
  return got.key === key ? got : {};
}

/** useTick renders again at each turn, and returns how many there were. */
export function useTick() {
  const [n, set] = useState(0);
  useEffect(() => {
    const f = () => set((was) => was + 1);
    listeners.add(f);
    return () => listeners.delete(f);
  }, []);
  return n;
}
