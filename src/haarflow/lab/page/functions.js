// The network as a function of its inputs: a heat-map in the plane, a line on the line.
import { DASHES } from "./curves.js";
import { brief, brush, colour, dark, element, paint, short, sized, ticks } from "./look.js";

export class Functions {
  constructor(home) { this.home = home; this.figures = new Map(); }

  hide() { this.home.hidden = true; }

  show(header, values) {
    this.home.hidden = false;
    this.last = { header, values };
    this.draw();
  }

  draw() {
    if (!this.last || this.home.hidden) return;
    const { header, values } = this.last, size = header.side ** header.inputs;
    const lanes = header.inputs === 1 ? ["all"] : header.lanes;
    for (const [name, one] of this.figures) if (!lanes.includes(name)) { one.figure.remove(); this.figures.delete(name); }
    const low = Math.min(...values), high = Math.max(...values);
    lanes.forEach((lane, i) => {
      if (!this.figures.has(lane)) {
        const canvas = element("canvas", { role: "img", "aria-label": `function of ${lane}` }), caption = element("span"), range = element("span", { class: "value" });
        const figure = element("figure", { class: "heat", dataset: { lane } }, element("figcaption", {}, caption, range), canvas);
        this.figures.set(lane, { figure, canvas, caption, range });
        this.home.append(figure);
      }
      const one = this.figures.get(lane);
      const what = header.what === "f" ? "f" : "|f − Qf|";
      one.caption.textContent = header.inputs === 1 ? `${what} of each scheme over x${header.sample ? "; rings are the data" : "; dots are the teacher"}` : `${lane}: ${what}`;
      one.range.textContent = header.inputs === 1 ? "" : `${brief(low)} … ${brief(high)}`;
      one.range.title = header.what === "f" ? "from blue to orange, for all schemes" : "from none to orange, for all schemes";
      one.figure.classList.toggle("wide", header.inputs === 1);
      if (header.inputs === 1) this.lines(one.canvas, header, values, low, high);
      else this.heat(one.canvas, values.subarray(i * size, (i + 1) * size), header.side, header.what === "f" ? low : null, high);
    });
  }

  heat(canvas, values, side, low, high) {
    const image = new ImageData(side, side), most = Math.max(Math.abs(low), Math.abs(high), 1e-12);
    for (let row = 0; row < side; row++) for (let k = 0; k < side; k++) {
      const value = low === null ? values[row * side + k] / Math.max(high, 1e-12) : low < 0 ? values[row * side + k] / most : 2 * (values[row * side + k] - low) / Math.max(high - low, 1e-12) - 1;
      image.data.set([...shade(value), 255], 4 * ((side - 1 - row) * side + k));
    }
    const small = new OffscreenCanvas(side, side);
    small.getContext("2d").putImageData(image, 0, 0);
    sized(canvas);
    const context = brush(canvas);
    context.imageSmoothingEnabled = true;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
  }

  lines(canvas, header, values, low, high) {
    const { ratio, width, height } = sized(canvas), context = brush(canvas), { ink, muted, grid } = paint();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    for (const [, y] of header.sample ?? []) { low = Math.min(low, y); high = Math.max(high, y); }
    const pad = 0.08 * Math.max(high - low, 1e-9), px = (x) => 36 + (x / header.reach + 1) / 2 * (width - 44), py = (y) => 6 + (high + pad - y) / (high - low + 2 * pad) * (height - 24);
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = muted;
    context.strokeStyle = grid;
    for (const t of ticks(low, high, 4)) { context.beginPath(); context.moveTo(36, py(t)); context.lineTo(width - 8, py(t)); context.stroke(); context.fillText(short(t), 2, py(t) + 3); }
    for (const t of ticks(-header.reach, header.reach, 6)) context.fillText(short(t), px(t) - 6, height - 4);
    header.lanes.forEach((lane, i) => {
      context.strokeStyle = lane === "teacher" ? ink : colour(lane, i);
      context.lineWidth = 1.8;
      context.setLineDash(lane === "teacher" ? [1, 3] : DASHES[lane] ?? []);
      context.beginPath();
      for (let k = 0; k < header.side; k++) { const x = px(-header.reach + 2 * header.reach * k / (header.side - 1)), y = py(values[i * header.side + k]); if (k) context.lineTo(x, y); else context.moveTo(x, y); }
      context.stroke();
    });
    context.setLineDash([]);
    context.strokeStyle = ink;
    for (const [x, y] of header.sample ?? []) { context.beginPath(); context.arc(px(x), py(y), 2.4, 0, 7); context.stroke(); }
  }
}

// From blue through the page's middle grey to orange; told apart by every common kind of colour vision.
function shade(value) {
  const t = Math.max(-1, Math.min(1, value)), middle = dark() ? [40, 42, 46] : [245, 245, 243], end = t < 0 ? [0, 114, 178] : [217, 100, 0];
  return middle.map((c, i) => Math.round(c + Math.abs(t) * (end[i] - c)));
}
