// Lists and grids with only the rows near the screen in the document.
import { useEffect, useLayoutEffect, useRef, useState } from "./html.js";

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
 * useRows returns which rows, from (inclusive) and to (exclusive), of a list with count rows of a height in pixels are near the screen.
 * The whole page scrolls.
 */
export function useRows(ref, count, height) {
  const [range, set] = useState({ from: 0, to: 0 });
  useLayoutEffect(() => {
    let frame = 0;
    const measure = () => {
      frame = 0;
      if (!ref.current) return;
      const top = ref.current.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(-top / height) - spare);
      const to = Math.min(count, Math.ceil((innerHeight - top) / height) + spare);
      set((was) => (was.from === from && was.to === to ? was : { from, to: Math.max(from, to) }));
    };
    const soon = () => { frame ||= requestAnimationFrame(measure); };
    measure();
    addEventListener("scroll", soon, { passive: true });
    addEventListener("resize", soon);
    const observer = new ResizeObserver(soon);
    observer.observe(document.body);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", soon);
      removeEventListener("resize", soon);
      observer.disconnect();
    };
  }, [count, height]);
  return range;
}

/** useWindow is useRows for an element that scrolls both ways. */
export function useWindow(ref, rows, height, columns, width) {
  const [range, set] = useState({ from: 0, to: 0, left: 0, right: 0, more: false });
  useLayoutEffect(() => {
    const e = ref.current;
    if (!e) return;
    let frame = 0;
    const measure = () => {
      frame = 0;
      const from = Math.max(0, Math.floor(e.scrollTop / height) - spare);
      const to = Math.min(rows, Math.ceil((e.scrollTop + e.clientHeight) / height) + spare);
      const left = Math.max(0, Math.floor(e.scrollLeft / width) - spare);
      const right = Math.min(columns, Math.ceil((e.scrollLeft + e.clientWidth) / width) + spare);
      const more = e.scrollLeft + e.clientWidth < e.scrollWidth - 1; // to the right
      set((was) => (was.from === from && was.to === to && was.left === left && was.right === right && was.more === more ? was : { from, to, left, right, more }));
    };
    const soon = () => { frame ||= requestAnimationFrame(measure); };
    measure();
    e.addEventListener("scroll", soon, { passive: true });
    const observer = new ResizeObserver(soon);
    observer.observe(e);
    return () => {
      cancelAnimationFrame(frame);
      e.removeEventListener("scroll", soon);
      observer.disconnect();
    };
  }, [rows, height, columns, width]);
  return range;
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
