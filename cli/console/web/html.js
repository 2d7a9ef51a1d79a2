// The libraries, as the other modules use them.
import { h, render, Fragment } from "./lib/preact.js";
import htm from "./lib/htm.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib/hooks.js";
export { h, render, Fragment };
export const html = htm.bind(h);
