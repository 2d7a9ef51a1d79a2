// Changes of "what if". In the address each is words, as on the command line: if=drain beijing, if=place tianjin zones=a,b region=r.
// For the server they are those of `clusterset preview --file`.
import { decode as dec } from "./address.js";
import { given, inShell, ofHub } from "./words.js";

const ofClusters = ["down", "drain", "undrain", "leave"];

const enc = (text) => encodeURIComponent(text);

/** toWords writes a change for the address. */
export function toWords(change) {
  const [kind] = Object.keys(change);
  const c = change[kind];
  if (ofClusters.includes(kind)) return [kind, ...c.map(enc)].join(" ");
  if (kind === "unreachable") return [kind, c.clusters.map(enc).join(","), ...(c.from?.length ? ["from=" + c.from.map(enc).join(",")] : [])].join(" ");
  const words = [kind, enc(c.service ?? c.cluster)];
  for (const [name, value] of Object.entries(c)) {
    if (name === "service" || name === "cluster" || value === "" || value === undefined) continue;
    words.push(name + "=" + (Array.isArray(value) ? value.map(enc).join(",") : enc(String(value))));
  }
  return words.join(" ");
}

/** fromWords reads a change from the address. The server reports what is wrong with it. */
export function fromWords(text) {
  const [kind, ...words] = text.split(" ").filter((w) => w !== "");
  if (ofClusters.includes(kind)) return { [kind]: words.map(dec) };
  if (kind === "unreachable") {
    const from = words.find((w) => w.startsWith("from="))?.slice(5);
    return { unreachable: { clusters: (words[0] ?? "").split(",").map(dec), ...(from && { from: from.split(",").map(dec) }) } };
  }
  const c = { [kind === "place" ? "cluster" : "service"]: dec(words[0] ?? "") };
  for (const word of words.slice(1)) {
    const cut = word.indexOf("=");
    const [name, value] = cut < 0 ? [word, ""] : [word.slice(0, cut), word.slice(cut + 1)];
    if (["zones", "communities", "cidrs", "externalCIDRs", "exportTo"].includes(name)) c[name] = value.split(",").map(dec);
    else if (name === "minReady") c.minReady = Number(dec(value));
    else c[name] = dec(value);
  }
  return { [kind]: c };
}

/** fromAddress reads all changes of an address. */
export function fromAddress(params) {
  return params.getAll("if").map(fromWords);
}

/** toParameter writes changes for a request; "" if there are none. */
export function toParameter(changes) {
  return changes.length ? "changes=" + enc(JSON.stringify(changes)) : "";
}

/** command previews changes in a shell. */
export function command(changes, { flags, sources }) {
  const [kind] = Object.keys(changes[0]), hub = given(flags, ...ofHub, "manifests", "data-path", "default-prefer"), members = given(flags, "kubeconfig");
  if (changes.length === 1 && ofClusters.includes(kind)) return inShell("clusterset", "preview", kind, ...changes[0][kind], ...hub);
  const whole = (c) => (c.export ? { export: { ...c.export, context: sources.find((s) => s.cluster === c.export.from)?.context } } : c);
  const words = inShell("clusterset", "preview", ...hub, ...(changes.some((c) => c.export) ? members : []), "--file", "-");
  return `${words} <<'EOF'\n${JSON.stringify(changes.map(whole), null, 2)}\nEOF`;
}

/** withCluster adds a cluster to the change of its kind, or removes it if it is there. */
export function withCluster(changes, kind, cluster) {
  const at = changes.findIndex((c) => c[kind]);
  if (at < 0) return [...changes, { [kind]: [cluster] }];
  const names = changes[at][kind];
  const now = names.includes(cluster) ? names.filter((n) => n !== cluster) : [...names, cluster];
  return now.length ? changes.with(at, { [kind]: now }) : changes.toSpliced(at, 1);
}

/** has says whether a change of the kind names the cluster. */
export const has = (changes, kind, cluster) => changes.some((c) => c[kind]?.includes?.(cluster));

/** chips are the changes one name at a time: each has a title, and what is left when it is taken back. */
export function chips(changes) {
  return changes.flatMap((c, i) => {
    const [kind] = Object.keys(c);
    const names = kind === "unreachable" ? c.unreachable.clusters : ofClusters.includes(kind) ? c[kind] : [];
    if (names.length < 2) return [{ title: title(c), without: changes.toSpliced(i, 1) }];
    const only = (list) => ({ [kind]: kind === "unreachable" ? { ...c.unreachable, clusters: list } : list });
    return names.map((name, n) => ({ title: title(only([name])), without: changes.with(i, only(names.toSpliced(n, 1))) }));
  });
}

/** title is a change in the words of clusterset preview. */
export function title(change) {
  const [kind] = Object.keys(change);
  const c = change[kind];
  const words = (...all) => all.filter(Boolean).join(" ");
  switch (kind) {
    case "down": case "drain": case "undrain": case "leave": return words(kind, c.join(", "));
    case "unreachable": return words(kind, c.clusters.join(", "), c.from && "from " + c.from.join(", "));
    case "place": return words(kind, c.cluster, c.zones && "zone " + c.zones.join(", "), c.region && "region " + c.region, c.communities && "communities " + c.communities.join(", "),
      c.network && "network " + c.network, c.cidrs && "CIDRs " + c.cidrs.join(", "), c.externalCIDRs && "external CIDRs " + c.externalCIDRs.join(", "));
    case "policy": return words(kind, c.service, c.prefer && "prefer " + c.prefer, c.boundary && "boundary " + c.boundary, c.minReady && "min-ready " + c.minReady, c.exportTo && "export-to " + c.exportTo.join(", "));
    case "export": case "unexport": return words(kind, c.service, "from", c.from);
    default: return kind;
  }
}
