// Words for people.

/** count writes a number with a noun. */
export function count(n, one, many = one + "s") {
  return `${(n ?? 0).toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** finder returns whether something has all words of a text in its parts. */
export function finder(text) {
  const words = (text ?? "").toLowerCase().split(/\s+/);
  return (...parts) => {
    const whole = parts.join(" ").toLowerCase();
    return words.every((w) => whole.includes(w));
  };
}

/** inShell is a line for a POSIX shell. */
export const inShell = (...words) => words.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", "'\\''")}'`)).join(" ");

/** given are those flags of some names that the console was started with, as arguments. */
export const given = (flags, ...names) => names.flatMap((n) => (flags?.[n] ? ["--" + n, flags[n]] : []));
export const ofHub = ["hub-kubeconfig", "hub-context"];

/** span writes a duration in milliseconds. */
export function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} days`;
}

/** effects, the worst first: the word on a badge, a sentence about a service, its icon and its colour. */
export const effects = {
  lost: { word: "lost", text: "loses its last endpoint", icon: "cross", tone: "bad" },
  "last-resort": { word: "last resort", text: "is left to the last resort", icon: "alert", tone: "bad" },
  "leaves-region": { word: "leaves region", text: "leaves its region", icon: "far", tone: "warn" },
  "leaves-zone": { word: "leaves zone", text: "leaves its zone", icon: "out", tone: "warn" },
  fewer: { word: "fewer", text: "falls on fewer endpoints", icon: "less", tone: "warn" },
  conflict: { word: "conflict", text: "comes into conflict", icon: "conflict", tone: "warn" },
  moved: { word: "moved", text: "uses other endpoints", icon: "swap", tone: "calm" },
  more: { word: "more", text: "has more endpoints", icon: "more", tone: "good" },
  gained: { word: "gained", text: "gains its first endpoint", icon: "check", tone: "good" },
};
export const severity = Object.keys(effects);

export const phases = {
  Ready: { icon: "ready", tone: "good", text: "renews its heartbeat" },
  Suspect: { icon: "suspect", tone: "warn", text: "silent for a while: others are preferred" },
  Expired: { icon: "expired", tone: "bad", text: "silent for too long: its endpoints aren't answered" },
  Unknown: { icon: "unknown", tone: "calm", text: "the hub has never seen a heartbeat" },
  Left: { icon: "left", tone: "calm", text: "has left the set" },
};

export const ways = {
  dns: { name: "clusterset.local", short: "local", text: "the name below clusterset.local" },
  global: { name: "svc.global", short: "global", text: "the name below svc.global" },
  clusterSetIP: { name: "ClusterSetIP", short: "IP", text: "connections to the ClusterSetIP" },
};

export const tiers = { cluster: "in the cluster", zone: "in the zone", region: "in the region", any: "anywhere" };

/** placeName is a place for people. */
export function placeName(p) {
  return [p.cluster, p.zone, p.region].filter(Boolean).join(" / ");
}

/** placeText is a place as the server reads it: cluster/zone/region. */
export const placeText = (p) => [p.cluster, p.zone, p.region].map((part) => part || "-").join("/");

/** sourceName is what the page calls a source. */
export function sourceName(s) {
  if (s.role === "files") return "The manifests";
  return (s.role === "hub" ? "The hub" : s.cluster ? `The cluster ${s.cluster}` : "A cluster") + (s.context ? ` (context ${s.context})` : "");
}
