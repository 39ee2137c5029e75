// Take it away: texts to copy, files to save, the picture as PNG or SVG, and a film.
import { DASHES } from "./curves.js";
import { colour, element, paint, save } from "./look.js";

export function picture(panes, curves, scale = 1.5) {
  const { ink, paper } = paint(), wide = 320, tall = 280, charts = curves.names(), across = Math.max(panes.length, 1);
  const columns = Math.max(2, across), rows = Math.ceil(charts.length / columns), width = columns * wide, height = tall + 30 + rows * 150;
  const canvas = element("canvas", { width: width * scale, height: height * scale }), context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = paper;
  context.fillRect(0, 0, width, height);
  panes.forEach((pane, i) => {
    context.fillStyle = colour(pane.name, i);
    context.font = "bold 13px system-ui, sans-serif";
    pane.draw(); // what WebGL has drawn can be read in the same task only
    context.fillText(pane.name, i * wide + 10, 18);
    for (const layer of [pane.under, pane.points, pane.over]) context.drawImage(layer, i * wide + 4, 24, wide - 8, tall - 8);
  });
  charts.forEach((name, i) => {
    const [x, y] = [(i % columns) * wide, tall + 30 + Math.floor(i / columns) * 150];
    context.fillStyle = ink;
    context.font = "11px system-ui, sans-serif";
    context.fillText(curves.called(name), x + 40, y);
    curves.plot(context, name, x, y + 4, wide, 140);
  });
  return canvas;
}

export function savePng(panes, curves) { picture(panes, curves).toBlob((blob) => save("lab.png", blob), "image/png"); }

// A vector picture: at most 3000 particles of each cloud, and every curve as a path.
export function svg(panes, curves) {
  const space = "http://www.w3.org/2000/svg", { ink, paper, muted } = paint(), wide = 320, tall = 280;
  const make = (tag, props, text) => { const one = document.createElementNS(space, tag); for (const [name, value] of Object.entries(props)) one.setAttribute(name, value); if (text) one.textContent = text; return one; };
  const charts = curves.names(), columns = Math.max(2, panes.length), height = tall + 40 + Math.ceil(charts.length / columns) * 150;
  const root = make("svg", { xmlns: space, width: columns * wide, height, viewBox: `0 0 ${columns * wide} ${height}`, "font-family": "sans-serif", "font-size": 11 });
  root.append(make("rect", { width: "100%", height: "100%", fill: paper }));
  panes.forEach((pane, order) => {
    const home = make("g", { transform: `translate(${order * wide + 4} 24)` });
    root.append(make("text", { x: order * wide + 10, y: 16, fill: colour(pane.name, order), "font-weight": "bold" }, pane.name), home);
    const at = (point) => pane.camera.project(point, wide - 8, tall - 8), { lane, reach } = pane.frame ?? { lane: { players: [] } };
    lane.players.forEach((player, i) => {
      const every = Math.max(1, Math.ceil(player.n / 3000));
      for (let k = 0; k < player.n; k += every) {
        const mass = player.weights ? player.weights[k] / 256 : 1;
        if (mass <= 0) continue;
        const [x, y] = at(player.planes.map((plane, j) => plane[k] / 32767 * reach[j]));
        home.append(make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: (1.6 * Math.sqrt(Math.min(mass, 40))).toFixed(1), fill: i ? colour("fifth") : colour(pane.name, order), "fill-opacity": 0.6 }));
      }
    });
    for (const point of pane.camera.scene?.teacher ?? []) { const [x, y] = at(point); home.append(make("path", { d: `M${x - 4} ${y - 4}l8 8m-8 0l8 -8`, stroke: ink, fill: "none", "stroke-width": 1.5 })); }
  });
  charts.forEach((name, i) => {
    const left = (i % columns) * wide + 40, top = tall + 40 + Math.floor(i / columns) * 150, { low, high, least, log } = curves.bounds(name);
    const floor = log ? Math.max(least, high * 1e-12) : low, to = (v) => (log ? Math.log10(Math.max(v, floor)) : v), [y0, y1] = [to(floor), to(high)], t0 = curves.times[0], t1 = curves.times.at(-1);
    root.append(make("text", { x: left, y: top - 4, fill: ink }, curves.called(name)));
    root.append(make("rect", { x: left, y: top, width: wide - 50, height: 110, fill: "none", stroke: muted, "stroke-width": 0.5 }));
    root.append(make("text", { x: left - 4, y: top + 8, fill: muted, "text-anchor": "end", "font-size": 9 }, high.toPrecision(3)), make("text", { x: left - 4, y: top + 110, fill: muted, "text-anchor": "end", "font-size": 9 }, floor.toPrecision(3)), make("text", { x: left + wide - 50, y: top + 122, fill: muted, "text-anchor": "end", "font-size": 9 }, `time ${t1.toPrecision(3)}`));
    curves.lanes.forEach((lane, order) => {
      const points = curves.column(lane, name).map((value, k) => [curves.times[k], value]).filter(([, value]) => Number.isFinite(value));
      const path = points.map(([t, v], k) => `${k ? "L" : "M"}${(left + (t - t0) / Math.max(t1 - t0, 1e-12) * (wide - 50)).toFixed(1)} ${(top + 110 - (to(v) - y0) / Math.max(y1 - y0, 1e-12) * 110).toFixed(1)}`).join("");
      root.append(make("path", { d: path, fill: "none", stroke: colour(lane, order), "stroke-width": 1.5, "stroke-dasharray": (DASHES[lane] ?? []).join(" ") }));
    });
  });
  return new XMLSerializer().serializeToString(root);
}

// A film of what is on the screen, until it is stopped.
export class Film {
  constructor(panes, curves, done, heard = () => {}) {
    const first = picture(panes, curves, 1);
    this.canvas = element("canvas", { width: first.width, height: first.height });
    this.context = this.canvas.getContext("2d");
    this.draw = () => this.context.drawImage(picture(panes, curves, 1), 0, 0);
    this.draw();
    const kinds = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"].filter((kind) => MediaRecorder.isTypeSupported(kind));
    this.parts = [];
    this.recorder = new MediaRecorder(this.canvas.captureStream(25), { mimeType: kinds[0] });
    this.recorder.ondataavailable = (event) => { this.parts.push(event.data); heard(event.data.size); };
    this.timer = setInterval(this.draw, 100); // a film has frames also while the run waits
    this.recorder.onstop = () => { clearInterval(this.timer); save("lab.webm", new Blob(this.parts, { type: "video/webm" })); done(); };
    this.recorder.start(500);
  }

  stop() { this.recorder.stop(); }
}
