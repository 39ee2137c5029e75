// Take it away: texts to copy, files to save, the picture as PNG or SVG, and a film.
import { colour, element, paint, save } from "./look.js";
import { above, below } from "./scene.js";
import { Vector, make } from "./svg.js";

const WIDE = 320, CHART = 150; // of a pane or chart, and the height of a chart with its title

// Where everything lies in a picture: panes in a row, as high for their width as on the screen, and charts below.
function layout(panes, curves) {
  const { clientWidth: w, clientHeight: h } = panes[0]?.over ?? {}, charts = curves.names(), columns = Math.max(2, panes.length);
  const tall = Math.round((WIDE - 8) * Math.max(0.4, Math.min(1.6, w > 0 && h > 0 ? h / w : 0.9)));
  const at = (i) => [(i % columns) * WIDE, tall + 46 + Math.floor(i / columns) * CHART];
  return { charts, tall, at, width: columns * WIDE, height: tall + 34 + Math.ceil(charts.length / columns) * CHART };
}

export function picture(panes, curves, scale = 1.5) {
  const { ink, paper } = paint(), { charts, tall, at, width, height } = layout(panes, curves);
  const canvas = element("canvas", { width: width * scale, height: height * scale }), context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = paper;
  context.fillRect(0, 0, width, height);
  panes.forEach((pane, i) => {
    context.fillStyle = colour(pane.name, i);
    context.font = "bold 13px system-ui, sans-serif";
    pane.draw(); // what WebGL has drawn can be read in the same task only
    context.fillText(pane.name, i * WIDE + 10, 18);
    for (const layer of [pane.under, pane.points, pane.over]) context.drawImage(layer, i * WIDE + 4, 24, WIDE - 8, tall);
  });
  charts.forEach((name, i) => titled(context, curves, name, at(i), ink));
  return canvas;
}

function titled(context, curves, name, [x, y], ink) {
  context.fillStyle = ink;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.fillText(curves.called(name), x + 40, y);
  curves.plot(context, name, x, y + 4, WIDE, CHART - 20);
}

export function savePng(panes, curves) { picture(panes, curves).toBlob((blob) => save("lab.png", blob), "image/png"); }

// The same as a vector picture: at most 3000 particles of each cloud.
export function svg(panes, curves) {
  const { ink, paper } = paint(), { charts, tall, at, width, height } = layout(panes, curves);
  const root = make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" });
  root.append(make("rect", { width: "100%", height: "100%", fill: paper }));
  panes.forEach((pane, order) => {
    const home = make("svg", { x: order * WIDE + 4, y: 24, width: WIDE - 8, height: tall }); // what sticks out is cut off
    root.append(make("text", { x: order * WIDE + 10, y: 16, fill: colour(pane.name, order), "font-weight": "bold", "font-size": 13 }, pane.name), home);
    below(new Vector(home), WIDE - 8, tall, pane.camera);
    const { lane, reach } = pane.frame ?? { lane: { players: [] } };
    lane.players.forEach((player, i) => {
      const every = Math.max(1, Math.ceil(player.n / 3000));
      for (let k = 0; k < player.n; k += every) {
        const mass = player.weights ? player.weights[k] / 256 : 1;
        if (mass <= 0) continue;
        const [x, y] = pane.camera.project(player.planes.map((plane, j) => plane[k] / 32767 * reach[j]), WIDE - 8, tall);
        home.append(make("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: (1.6 * Math.sqrt(Math.min(mass, 40))).toFixed(1), fill: i ? colour("fifth") : colour(pane.name, order), "fill-opacity": 0.6 }));
      }
    });
    above(new Vector(home), WIDE - 8, tall, pane.camera);
  });
  charts.forEach((name, i) => titled(new Vector(root), curves, name, at(i), ink));
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
