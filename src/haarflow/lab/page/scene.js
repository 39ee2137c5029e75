// What stands still around the particles: the grid, the axes and E^G below them, so that those on E^G are seen, and the
// teacher above.
import { independent } from "./camera.js";
import { nice, paint, short, ticks, write } from "./look.js";

export function below(context, width, height, camera) {
  const { scene } = camera;
  if (!scene) return;
  context.font = "10.5px system-ui, sans-serif";
  if (scene.well && camera.dimensions === 2) gibbs(context, width, height, camera);
  if (camera.dimensions === 2) plane(context, width, height, camera);
  else solid(context, width, height, camera);
  fixedSpace(context, width, height, camera);
}

export function above(context, width, height, camera) {
  const { scene } = camera, { ink } = paint();
  if (!scene) return;
  context.strokeStyle = ink;
  context.lineWidth = 1.6;
  for (const point of scene.teacher) {
    const [x, y] = camera.project(point, width, height), r = 4;
    context.beginPath();
    context.moveTo(x - r, y - r); context.lineTo(x + r, y + r); context.moveTo(x - r, y + r); context.lineTo(x + r, y - r);
    context.stroke();
  }
}

// The Gibbs law exp(−τV/T) of the double well V = Σ(θ² − 1)²/4, darker where it is denser.
function gibbs(context, width, height, camera) {
  const { temperature, penalty } = camera.numbers ?? {}, cell = 4;
  if (!(temperature > 0)) return;
  context.fillStyle = paint().muted;
  for (let x = 0; x < width; x += cell) for (let y = 0; y < height; y += cell) {
    const [a, b] = camera.unproject(x + cell / 2, y + cell / 2, width, height);
    const density = Math.exp(-penalty * ((a * a - 1) ** 2 + (b * b - 1) ** 2) / 4 / temperature);
    if (density < 0.02) continue;
    context.globalAlpha = 0.4 * density;
    context.fillRect(x, y, cell, cell);
  }
  context.globalAlpha = 1;
}

// Two axes: a grid with numbers, and the names of the axes at their ends.
function plane(context, width, height, camera) {
  const [zx, zy] = camera.fit(), [sx, sy] = camera.span, { muted, grid } = paint(), { axes } = camera.scene;
  const across = ticks(-sx / zx, sx / zx, Math.max(2, width / 50)).map((t) => [t, camera.project([t, 0, 0], width, height)[0]]);
  const up = axes.length < 2 ? [] : ticks(-sy / zy, sy / zy, Math.max(2, height / 45)).map((t) => [t, camera.project([0, t, 0], width, height)[1]]);
  context.lineWidth = 1;
  context.strokeStyle = grid;
  for (const [, x] of across) line(context, [x, 0], [x, height]);
  for (const [, y] of up) line(context, [0, y], [width, y]);
  context.textAlign = "center";
  for (const [t, x] of across) if (x > 20 && x < width - 20) write(context, short(t), x, height - 17, muted);
  write(context, nice(axes[0] ?? ""), width / 2, height - 5, muted);
  context.textAlign = "left";
  for (const [t, y] of up) if (y > 28 && y < height - 30) write(context, short(t), 3, y - 3, muted);
  if (axes.length > 1) write(context, `↑ ${nice(axes[1])}`, 4, 12, muted);
}

function line(context, from, to) { context.beginPath(); context.moveTo(...from); context.lineTo(...to); context.stroke(); }

// Three axes, from the middle.
function solid(context, width, height, camera) {
  const { muted } = paint(), [x0, y0] = camera.project([0, 0, 0], width, height);
  context.textAlign = "center";
  camera.scene.axes.forEach((name, i) => {
    context.strokeStyle = muted;
    context.lineWidth = 1;
    const [x, y] = camera.project([0, 1, 2].map((k) => (k === i ? camera.span[i] : 0)), width, height);
    line(context, [x0, y0], [x, y]);
    const words = nice(name), room = context.measureText(words).width / 2 + 4;
    const at = Math.max(room, Math.min(width - room, x0 + 1.12 * (x - x0)));
    write(context, words, at, Math.max(12, Math.min(height - 6, y0 + 1.12 * (y - y0))), muted);
  });
}

// E^G as far as the axes show it: a point, a line, or a plane.
function fixedSpace(context, width, height, camera) {
  const { scene, span, dimensions } = camera, basis = independent(scene.fixed, scene.axes.length), { ink } = paint();
  if (basis.length >= scene.axes.length && scene.axes.length > 0) return;
  const far = (v) => { const k = 2 / Math.max(...v.map((c, i) => Math.abs(c) / span[i]), 1e-12); return v.map((c) => c * k / (dimensions === 3 ? 2 : 1)); };
  const at = (v) => camera.project(v, width, height);
  context.strokeStyle = ink;
  context.fillStyle = ink;
  context.lineWidth = 1.4;
  let label = at([0, 0, 0]);
  if (basis.length === 0) {
    context.beginPath(); context.arc(...label, 4, 0, 7); context.stroke();
  } else if (basis.length === 1) {
    const v = far(basis[0]), [a, b] = [at(v), at(v.map((c) => -c))];
    line(context, a, b);
    label = a[0] > b[0] ? a : b;
  } else {
    const [u, v] = basis.map(far), corner = (s, t) => at(u.map((c, i) => s * c + t * v[i]));
    context.globalAlpha = 0.12;
    context.beginPath();
    [[1, 1], [1, -1], [-1, -1], [-1, 1]].forEach(([s, t], i) => (i ? context.lineTo(...corner(s, t)) : context.moveTo(...corner(s, t))));
    context.closePath(); context.fill();
    context.globalAlpha = 0.6; context.stroke(); context.globalAlpha = 1;
    label = corner(1, 1);
  }
  context.textAlign = "right";
  context.font = "italic 12px system-ui, sans-serif";
  write(context, "Eᴳ", Math.min(Math.max(label[0] - 4, 30), width - 6), Math.min(Math.max(label[1] - 6, 26), height - 34), ink);
}
