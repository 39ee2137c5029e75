// Colours, motion and small helpers. All text of users and records goes through textContent.

const night = matchMedia("(prefers-color-scheme: dark)");
export const dark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : night.matches);
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const OWN = { Euler: "vanilla", Extragradient: "DA", teacher: "seventh", "": "vanilla" };
let palette = {};

export function usePalette(given) { palette = given; }

export function colour(name, order = 0) {
  const names = Object.keys(palette);
  const key = name in palette ? name : (OWN[name] ?? names[order % Math.max(names.length, 1)]);
  const pair = palette[key] ?? ["#0072b2", "#5ab0ea"];
  return pair[dark() ? 1 : 0];
}

export function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
}

const paints = new Map();
export function paint() { // read once for each theme: to ask for a style costs as much as a curve
  if (!paints.has(dark())) paints.set(dark(), asked());
  return paints.get(dark());
}

function asked() {
  const style = getComputedStyle(document.documentElement);
  const read = (name, usual) => style.getPropertyValue(name).trim() || usual;
  return dark()
    ? { ink: read("--ink", "#e8e8e6"), muted: read("--muted", "#9a9a96"), grid: read("--grid", "#33363a"), paper: read("--paper", "#1b1d20") }
    : { ink: read("--ink", "#1d1f21"), muted: read("--muted", "#6a6d70"), grid: read("--grid", "#e3e3e0"), paper: read("--paper", "#ffffff") };
}

export function element(tag, props = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "text") found.textContent = value;
    else if (name === "class") found.className = value;
    else if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(found.dataset, value);
    else if (value === true) found.setAttribute(name, "");
    else if (value !== false && value != null) found.setAttribute(name, value);
  }
  found.append(...children.filter((child) => child != null));
  return found;
}

// The sizes of canvases as they were laid out last. To ask a canvas for its size makes the browser lay the page out
// at once if any text has changed, which costs more than to draw; so they are told, and what they show is drawn again.
const sizes = new WeakMap(), hearers = new Set();
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) sizes.set(target, [target.clientWidth, target.clientHeight]);
  for (const hearer of hearers) hearer();
});
export function whenResized(hearer) { hearers.add(hearer); return () => hearers.delete(hearer); }

// A canvas as sharp as the screen; returns its size in CSS pixels, and how many pixels of the screen one of them has.
export function sized(canvas) {
  if (!sizes.has(canvas)) { sizes.set(canvas, [canvas.clientWidth, canvas.clientHeight]); watcher.observe(canvas); }
  const ratio = Math.min(window.devicePixelRatio || 1, 2), [width, height] = sizes.get(canvas).map((size) => Math.max(1, size));
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  return { ratio, width, height };
}

// Whether the processor does the work of a graphics card: then a plain canvas is many times faster than WebGL, since
// every point costs a microsecond there, and a canvas that lies in the processor's memory faster than one that does not.
let slow = null;
export function software() {
  if (slow === null) {
    const gl = document.createElement("canvas").getContext("webgl2"), info = gl?.getExtension("WEBGL_debug_renderer_info");
    slow = !gl || /swiftshader|llvmpipe|software|basic render/i.test(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }
  return slow;
}

// What draws on a canvas.
export const brush = (canvas) => canvas.getContext("2d", { willReadFrequently: software() });

// Words on a picture, with some paper around them, so that no line goes through them.
export function write(context, text, x, y, fill) {
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = paint().paper;
  context.strokeText(text, x, y);
  context.fillStyle = fill;
  context.fillText(text, x, y);
}

export function short(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(+value.toPrecision(digits));
}

// Numbers beside each other, in as few letters as tell them apart.
export function apart(values) {
  for (let digits = 4; digits < 9; digits++) {
    const words = values.map((value) => short(value, digits));
    if (new Set(words).size === words.length || digits === 8) return words;
  }
}

export const brief = (value) => (Math.abs(value) < 1e-2 && value !== 0 ? value.toExponential(0).replace("e+", "e") : String(+value.toPrecision(2)));

export function ticks(low, high, count = 4) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * span; t += step) found.push(Math.abs(t) < 1e-9 * span ? 0 : t);
  return found;
}

export function save(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The mathematics of a sentence, as letters can show it.
export const nice = (text) => text.replaceAll("E^G", "Eᴳ").replaceAll("mu^G", "μᴳ");
