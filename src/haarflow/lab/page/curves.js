// Curves over time: one small chart for each quantity, one line for each scheme.
import { apart, brief, brush, colour, dark, element, paint, short, sized, ticks } from "./look.js";

const WORDS = {
  risk: "risk", asymmetry: "asymmetry |f − Qf|", "distance to SI": "distance to SI (W₂ to Eᴳ)", "distance to WI": "distance to WI (MMD to μᴳ)",
  energy: "energy: risk + penalty", "free energy": "free energy", payoff: "payoff", "distance from equilibrium": "distance from equilibrium",
};
const ORDER = Object.keys(WORDS);
const DASHES = { vanilla: [], DA: [6, 3], FA: [2, 2], EA: [9, 3, 2, 3], Euler: [], Extragradient: [6, 3] };

export class Curves {
  constructor(home) { this.home = home; this.charts = new Map(); this.clear(); this.log = true; }

  clear() { this.steps = []; this.times = []; this.rows = []; this.shown = 0; this.lanes = []; this.ranges = new Map(); }

  add(rows, first) {
    if (first < this.rows.length) this.ranges.clear();
    this.steps.length = this.times.length = this.rows.length = Math.min(first, this.rows.length);
    for (const [step, time, lanes] of rows) { this.steps.push(step); this.times.push(time); this.rows.push(lanes); }
    if (rows.length) this.lanes = [...new Set([...this.lanes, ...Object.keys(rows[0][2])])];
  }

  names() {
    const found = new Set(this.rows.length ? Object.values(this.rows[0]).flatMap((lane) => Object.keys(lane)) : []);
    return ORDER.filter((name) => found.has(name)).concat([...found].filter((name) => !ORDER.includes(name)));
  }

  // Of particles in a well there is no risk: their energy is that of the well.
  called(name) { return name === "energy" && !this.names().includes("risk") ? "energy ∫V dμ" : WORDS[name] ?? name; }

  draw() {
    const names = this.names();
    for (const [name, chart] of this.charts) if (!names.includes(name)) { chart.figure.remove(); this.charts.delete(name); }
    for (const name of names) {
      if (!this.charts.has(name)) {
        const canvas = element("canvas", { role: "img", "aria-label": this.called(name) });
        const note = element("span", { class: "value" });
        const figure = element("figure", { class: "chart", dataset: { quantity: name } }, element("figcaption", {}, element("span", { text: this.called(name) }), note), canvas);
        canvas.addEventListener("pointermove", (event) => { this.hover = (event.offsetX - 40) / Math.max(canvas.clientWidth - 48, 1); this.draw(); });
        canvas.addEventListener("pointerleave", () => { this.hover = null; this.draw(); });
        this.charts.set(name, { figure, canvas, note });
        this.home.append(figure);
      }
      this.chart(name, this.charts.get(name));
    }
  }

  column(lane, name) { return this.rows.map((row) => row[lane]?.[name] ?? NaN); }

  // The least and the largest of a quantity so far, and the least above zero; rows are looked at once.
  bounds(name) {
    const range = this.ranges.get(name) ?? { rows: 0, low: Infinity, high: -Infinity, least: Infinity };
    for (; range.rows < this.rows.length; range.rows++) for (const lane of Object.values(this.rows[range.rows])) {
      const value = lane[name];
      if (value == null) continue;
      range.low = Math.min(range.low, value); range.high = Math.max(range.high, value);
      if (value > 0) range.least = Math.min(range.least, value);
    }
    this.ranges.set(name, range);
    return { ...range, log: this.log && range.low >= 0 && range.high > 0 };
  }

  chart(name, chart) {
    const { canvas, note } = chart, { ratio, width, height } = sized(canvas), context = brush(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.plot(context, name, 0, 0, width, height);
    const place = this.place();
    const said = this.lanes.map((lane) => [lane, this.rows[place]?.[lane]?.[name]]).filter(([, value]) => value != null);
    const now = JSON.stringify([said, dark()]);
    if (now === chart.told) return; // words that stay are left alone: new ones make the browser lay the page out
    chart.told = now;
    note.title = said.map(([lane, value]) => `${lane} ${short(value)}`).join(", ");
    note.replaceChildren(...said.map(([lane, value]) => {
      const one = element("span", { text: `${brief(value)} ` });
      one.style.color = colour(lane, this.lanes.indexOf(lane));
      return one;
    }));
  }

  place() {
    const last = this.times.length - 1;
    if (this.hover != null && last > 0) {
      const time = this.times[0] + Math.max(0, Math.min(1, this.hover)) * (this.times[last] - this.times[0]);
      return this.times.findIndex((t) => t >= time);
    }
    const found = this.steps.findIndex((step) => step >= this.shown);
    return found < 0 ? last : found;
  }

  // One chart into any context; also used for the picture that is saved.
  plot(context, name, left, top, width, height) {
    const { ink, muted, grid } = paint(), { low, high, least, log } = this.bounds(name);
    if (!Number.isFinite(low)) return;
    const zero = log && low <= 0, floor = log ? Math.max(least, high * 1e-12) * (zero ? 0.4 : 1) : low;
    const to = (v) => (log ? Math.log10(Math.max(v, floor)) : v);
    let [y0, y1] = [to(log ? floor : low), to(high)];
    if (y1 - y0 < 1e-9 * Math.max(1, Math.abs(y1))) { y0 -= 0.5; y1 += 0.5; }
    const pad = 0.06 * (y1 - y0);
    y0 -= pad; y1 += pad;
    const t0 = this.times[0], t1 = Math.max(this.times.at(-1), t0 + 1e-9), box = { x: left + 40, y: top + 8, w: width - 48, h: height - 26 };
    const px = (t) => box.x + (t - t0) / (t1 - t0) * box.w, py = (v) => box.y + box.h - (to(v) - y0) / (y1 - y0) * box.h;
    context.font = "10px system-ui, sans-serif";
    context.lineWidth = 1;
    context.fillStyle = muted;
    context.strokeStyle = grid;
    context.textAlign = "right";
    const count = Math.max(2, height / 34), few = log ? decades(y0, y1) : ticks(y0, y1, count), marks = few.length < 2 && !log ? ticks(y0, y1, 2 * count) : few, words = apart(marks.map((t) => (log ? 10 ** t : t)));
    marks.forEach((t, i) => {
      const y = box.y + box.h - (t - y0) / (y1 - y0) * box.h;
      if (zero && y > py(0) - 11) return;
      context.beginPath(); context.moveTo(box.x, y); context.lineTo(box.x + box.w, y); context.stroke();
      context.fillText(words[i], box.x - 4, y + 3);
    });
    if (zero) context.fillText("0", box.x - 4, py(0) + 3);
    context.textAlign = "center";
    for (const t of ticks(t0, t1, Math.max(2, width / 90))) context.fillText(short(t), Math.min(px(t), left + width - 2 - context.measureText(short(t)).width / 2), box.y + box.h + 13);
    this.lanes.forEach((lane, order) => {
      context.strokeStyle = colour(lane, order);
      context.lineWidth = 1.7;
      context.setLineDash(DASHES[lane] ?? []);
      context.beginPath();
      const every = Math.max(1, Math.floor(this.rows.length / (2 * box.w)));
      let pen = false;
      for (let i = 0; i < this.rows.length; i += every) {
        const value = this.rows[i][lane]?.[name];
        if (value == null) { pen = false; continue; }
        if (pen) context.lineTo(px(this.times[i]), py(value)); else context.moveTo(px(this.times[i]), py(value));
        pen = true;
      }
      context.stroke();
    });
    context.setLineDash([]);
    const place = this.place();
    if (place >= 0 && this.times.length > 1) {
      context.strokeStyle = ink;
      context.globalAlpha = 0.4;
      context.beginPath(); context.moveTo(px(this.times[place]), box.y); context.lineTo(px(this.times[place]), box.y + box.h); context.stroke();
      context.globalAlpha = 1;
    }
  }
}

// Where a logarithmic axis has its lines: at few powers of ten, or at 1, 2 and 5 times them, or evenly.
function decades(low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 4)), all = [];
  for (let t = Math.ceil(low / step) * step; t <= high; t += step) all.push(t);
  if (all.length > 1) return all;
  const some = [1, 2, 5].flatMap((m) => [-1, 0, 1].map((k) => Math.log10(m) + Math.floor(low) + k + 1)).filter((t) => t >= low && t <= high);
  for (let count = 2, found = some; ; count++) {
    if (found.length > 1 || count > 12) return found;
    found = ticks(10 ** low, 10 ** high, count).filter((v) => v > 0).map(Math.log10);
  }
}

export { DASHES };
