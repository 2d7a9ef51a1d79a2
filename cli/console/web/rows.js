// Lists and grids with only the rows near the screen in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";

const spare = 6; // rows beyond the screen

export const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/** useMedia says whether a media query holds. */
export function useMedia(query) {
  const [is, set] = useState(matchMedia(query).matches);
  useEffect(() => {
    const m = matchMedia(query);
    const f = () => set(m.matches);
    m.addEventListener("change", f);
    f();
    return () => m.removeEventListener("change", f);
  }, [query]);
  return is;
}

/**
 * useMeasured returns what measure finds of an element: at first, when it or the page changes its size, and when it scrolls; or the page,
 * if that scrolls instead.
 */
function useMeasured(ref, page, first, measure, on) {
  const [found, set] = useState(first);
  useLayoutEffect(() => {
    const scrolls = page ? window : ref.current;
    if (!scrolls) return;
    let frame = 0;
    const look = () => {
      frame = 0;
      if (!ref.current) return;
      const now = measure(ref.current);
      set((was) => (Object.keys(now).every((k) => was[k] === now[k]) ? was : now));
    };
    const soon = () => { frame ||= requestAnimationFrame(look); };
    look();
    scrolls.addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    const observer = new ResizeObserver(soon);
    observer.observe(page ? document.body : scrolls);
    return () => {
      cancelAnimationFrame(frame);
      scrolls.removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
      observer.disconnect();
    };
  }, on);
  return found;
}

/** near are the first and the last, less one, of count things of a size that are seen from start to end, and some more. */
function near(start, end, size, count) {
  const from = Math.max(0, Math.floor(start / size) - spare);
  return [from, Math.max(from, Math.min(count, Math.ceil(end / size) + spare))];
}

/** useWindow returns which rows and columns, from (inclusive) and to (exclusive), of an element that scrolls both ways are near the screen. */
export function useWindow(ref, rows, height, columns, width) {
  return useMeasured(ref, false, { from: 0, to: 0, left: 0, right: 0, more: false }, (e) => {
    const [from, to] = near(e.scrollTop, e.scrollTop + e.clientHeight, height, rows);
    const [left, right] = near(e.scrollLeft, e.scrollLeft + e.clientWidth, width, columns);
    return { from, to, left, right, more: e.scrollLeft + e.clientWidth < e.scrollWidth - 1 }; // more to the right
  }, [rows, height, columns, width]);
}

/**
 * useList is a list of count rows, with their height in rem in wide and in narrow windows. The whole page scrolls. range are the rows that
 * are near the screen. list renders it: with a head, and row(i, at, rove) for each row, which has the properties at, and rove is for what
 * gets its focus.
 */
export function useList(count, wide, small) {
  const ref = useRef();
  const narrow = useMedia("(max-width: 52rem)");
  const height = (narrow ? small : wide) * rem();
  const range = useMeasured(ref, true, { from: 0, to: 0 }, (e) => {
    const top = e.getBoundingClientRect().top;
    const [from, to] = near(-top, innerHeight - top, height, count);
    return { from, to };
  }, [count, height]);
  const roving = useRoving(ref, count, height);
  const at = (i) => ({ role: "row", "aria-rowindex": i + 2, style: { transform: `translateY(${i * height}px)`, height: height + "px" } });
  const list = ({ kind, head, row, ...props }) => html`<div class=${`list ${kind}${narrow ? " narrow" : ""}`} role="grid" aria-rowcount=${count + 1} onKeyDown=${roving.onKeyDown} ...${props}>
    <div class="row head" role="row" aria-rowindex="1">${head}</div>
    <div class="rows" role="rowgroup" ref=${ref} style=${{ height: count * height + "px" }}>
      ${between(range.from, Math.min(range.to, count), roving.current, count).map((i) => row(i, at(i), roving.rove(i)))}
    </div>
  </div>`;
  return { range, list };
}

/** useWidth is the width in pixels that an element has for its contents; 0 before it is known. */
export function useWidth(ref) {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const measure = () => set(ref.current.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** between lists the numbers from..to-1, and one more if it is elsewhere within 0..count-1. */
export function between(from, to, more, count) {
  const all = [];
  for (let i = from; i < to; i++) all.push(i);
  if (more >= 0 && more < count && (more < from || more >= to)) all.push(more);
  return all;
}

/**
 * useRoving makes a list of count rows one stop of the Tab key, within which arrow keys, Home, End and the page keys move. Rows get
 * tabindex, data-row and onFocus by rove(i); the list gets onKeyDown. scrollTo brings a row onto the screen.
 */
export function useRoving(ref, count, height) {
  const [at, setAt] = useState(0);
  const wanted = useRef(-1);
  const current = Math.min(at, Math.max(0, count - 1));
  useLayoutEffect(() => {
    if (wanted.current < 0) return;
    const row = ref.current?.querySelector(`[data-row="${wanted.current}"]`);
    if (!row) return;
    wanted.current = -1;
    row.focus({ preventScroll: true });
  });
  const move = (to) => {
    to = Math.max(0, Math.min(count - 1, to));
    wanted.current = to;
    setAt(to);
    if (height && ref.current) {
      const top = ref.current.getBoundingClientRect().top + to * height;
      const above = 8 * rem(), below = innerHeight - 2 * height;
      if (top < above) scrollBy(0, top - above);
      else if (top > below) scrollBy(0, top - below);
    }
  };
  const page = height ? Math.max(1, Math.floor(innerHeight / height) - 3) : 10;
  const onKeyDown = (e) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[e.key];
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    if (by) move(current + by);
    else if (e.key === "Home") move(0);
    else if (e.key === "End") move(count - 1);
    else return;
    e.preventDefault();
  };
  const rove = (i) => ({ "data-row": i, tabindex: i === current ? 0 : -1, onFocus: () => setAt(i) });
  return { current, onKeyDown, rove };
}
