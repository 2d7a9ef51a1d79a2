// Changes of "what if". In the address each is words, as on the command line: if=drain beijing, if=place tianjin zones=a,b region=r.
// For the server they are those of `clusterset preview --file`.

const ofClusters = ["down", "drain", "undrain", "leave"];

const enc = (text) => encodeURIComponent(text);
function dec(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** toWords writes a change for the address. */
export function toWords(change) {
  const [kind] = Object.keys(change);
  const c = change[kind];
  if (ofClusters.includes(kind)) return [kind, ...c.map(enc)].join(" ");
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
  const c = { [kind === "place" || kind === "communities" ? "cluster" : "service"]: dec(words[0] ?? "") };
  for (const word of words.slice(1)) {
    const cut = word.indexOf("=");
    const [name, value] = cut < 0 ? [word, ""] : [word.slice(0, cut), word.slice(cut + 1)];
    if (name === "zones" || name === "to") c[name] = value.split(",").map(dec);
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

/** title is a change in words for people. */
export function title(change) {
  const [kind] = Object.keys(change);
  const c = change[kind];
  switch (kind) {
    case "down": return "switch off " + c.join(", ");
    case "drain": return "drain " + c.join(", ");
    case "undrain": return "end the drain of " + c.join(", ");
    case "leave": return "take " + c.join(", ") + " out of the set";
    case "place": return `move ${c.cluster} to ` + [c.zones && "zone " + c.zones.join(", "), c.region && "region " + c.region].filter(Boolean).join(", ");
    case "policy": return `policy of ${c.service}: ` + [c.prefer && "prefer " + c.prefer, c.boundary && "boundary " + c.boundary, c.minReady && "min-ready " + c.minReady].filter(Boolean).join(", ");
    case "communities": return `put ${c.cluster} into ${c.to?.join(", ")}`;
    case "exportTo": return `export ${c.service} to ${c.to?.join() === "-" ? "all" : c.to?.join(", ")}`;
    case "export": return `export ${c.service} from ${c.from}`;
    case "unexport": return `end the export of ${c.service} from ${c.from}`;
    default: return kind;
  }
}
