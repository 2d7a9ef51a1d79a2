// A value that parts of the page follow.
import { useEffect, useState } from "./html.js";

/** store holds a value: get it, set it, or use it in a component, which then renders again when it changes. */
export function store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const f of listeners) f(value);
    },
    use() {
      const [now, set] = useState(value);
      useEffect(() => {
        listeners.add(set);
        set(value);
        return () => listeners.delete(set);
      }, []);
      return now;
    },
  };
}
