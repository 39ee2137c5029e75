// A pane with a cloud: WebGL2 points (a plain canvas where there is none), and around them axes, E^G and the teacher.
import { brush, colour, element, nice, paint, rgb, short, sized, software, ticks } from "./look.js";

const VERTEX = `#version 300 es
in vec3 place; in float weight;
uniform vec3 reach; uniform vec3 span; uniform mat3 turn; uniform vec2 zoom; uniform float size;
out float shade;
void main() {
  vec3 p = turn * (place * reach / span);
  gl_Position = vec4(p.xy * zoom, 0.0, 1.0);
  float mass = weight * 32767.0 / 256.0;
  gl_PointSize = mass <= 0.0 ? 0.0 : clamp(size * sqrt(clamp(mass, 0.08, 60.0)), 1.5, 40.0);
  shade = 1.0;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
uniform vec3 tint; uniform float alpha; in float shade; out vec4 found;
void main() {
  vec2 d = gl_PointCoord * 2.0 - 1.0;
  float r = dot(d, d);
  if (r > 1.0) discard;
  float a = alpha * (1.0 - smoothstep(0.6, 1.0, r));
  found = vec4(tint * a, a);
}`;

// What all panes share: the window, the turn, and the scene that stands still.
export class Camera {
  constructor() { this.span = [1, 1, 1]; this.yaw = -0.6; this.pitch = 0.45; this.zoom = 1; this.dimensions = 2; this.scene = null; }

  reset() { this.yaw = -0.6; this.pitch = 0.45; this.zoom = 1; this.span = [0, 0, 0]; }

  see(reach) {
    const teacher = this.scene ? this.scene.teacher : [];
    this.span = this.span.map((old, i) => {
      let need = Math.max(reach[i], 1e-9);
      for (const point of teacher) need = Math.max(need, Math.abs(point[i]));
      if (need > 0.97 * old || need < 0.4 * old) return need * 1.2;
      return old;
    });
    const most = Math.max(...this.span);
    this.span = this.span.map((s) => (s < 1e-6 * most ? most : s));
  }

  matrix() { // row by row
    if (this.dimensions === 2) return [1, 0, 0, 0, 1, 0, 0, 0, 1];
    const [c, s, k, t] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    // x and y lie flat, z is up; then the eye goes up by the pitch
    return [c, s, 0, -s * t, c * t, k, s * k, -c * k, t];
  }

  project(point, width, height) {
    const m = this.matrix(), p = [0, 1, 2].map((i) => (point[i] ?? 0) / this.span[i]);
    const x = m[0] * p[0] + m[1] * p[1] + m[2] * p[2], y = m[3] * p[0] + m[4] * p[1] + m[5] * p[2];
    const [zx, zy] = this.fit();
    return [width * (0.5 + x * zx * 0.5), height * (0.5 - y * zy * 0.5)];
  }

  fit() { const base = this.dimensions === 3 ? 0.68 : 0.84; return [base * this.zoom, base * this.zoom]; }

  unproject(px, py, width, height) { // two dimensions only
    const [zx, zy] = this.fit();
    return [((px / width) * 2 - 1) / zx * this.span[0], (1 - (py / height) * 2) / zy * this.span[1]];
  }
}

export class Pane {
  constructor(name, camera, handlers = {}) {
    this.name = name;
    this.camera = camera;
    this.handlers = handlers;
    this.under = element("canvas", { class: "under", "aria-hidden": "true" });
    this.points = element("canvas", { class: "points", "aria-hidden": "true" });
    this.over = element("canvas", { class: "over", tabindex: "0", role: "img", "aria-label": `cloud of ${name}` });
    this.title = element("figcaption", { text: name });
    this.figure = element("figure", { class: "pane", dataset: { lane: name } }, this.title, element("div", { class: "stack" }, this.under, this.points, this.over));
    this.gl = this.begin();
    if (this.flat) this.merge();
    this.frame = null;
    this.gestures();
  }

  begin() {
    const gl = this.handlers.plain ?? software() ? null : this.points.getContext("webgl2", { alpha: true, antialias: false, depth: false });
    if (!gl) { this.flat = this.points.getContext("2d", { willReadFrequently: true }); return null; }
    const program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.program = program;
    this.at = Object.fromEntries(["reach", "span", "turn", "zoom", "size", "tint", "alpha"].map((u) => [u, gl.getUniformLocation(program, u)]));
    this.buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    for (const [name, count, offset] of [["place", 3, 0], ["weight", 1, 6]]) {
      const place = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, count, gl.SHORT, true, 8, offset);
    }
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.points.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.points.addEventListener("webglcontextrestored", () => { this.gl = this.begin(); this.draw(); });
    return gl;
  }

  // Where the processor puts the page together too, each canvas that lies over another costs as much as the points:
  // the three become one without holes, and the first three are not shown.
  merge() {
    this.whole = element("canvas", { class: "whole", "aria-hidden": "true" });
    this.under.before(this.whole);
    this.page = this.whole.getContext("2d", { alpha: false, willReadFrequently: true });
    this.under.style.visibility = this.points.style.visibility = "hidden";
    this.over.style.opacity = 0; // it still hears the mouse and the keys
  }

  drawWhole() {
    sized(this.whole);
    this.page.fillStyle = paint().paper;
    this.page.fillRect(0, 0, this.whole.width, this.whole.height);
    for (const layer of [this.under, this.points, this.over]) this.page.drawImage(layer, 0, 0);
  }

  gestures() {
    let last = null;
    this.over.addEventListener("pointerdown", (event) => { last = [event.clientX, event.clientY, 0]; this.over.setPointerCapture(event.pointerId); });
    this.over.addEventListener("pointermove", (event) => {
      if (!last) return;
      const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
      last = [event.clientX, event.clientY, last[2] + Math.abs(dx) + Math.abs(dy)];
      if (this.camera.dimensions !== 3) return;
      this.camera.yaw += dx * 0.01;
      this.camera.pitch = Math.max(-1.5, Math.min(1.5, this.camera.pitch + dy * 0.01));
      this.handlers.moved?.();
    });
    this.over.addEventListener("pointerup", (event) => {
      if (last && last[2] < 4) {
        const box = this.over.getBoundingClientRect();
        this.handlers.clicked?.(this.camera.unproject(event.clientX - box.left, event.clientY - box.top, box.width, box.height));
      }
      last = null;
    });
    this.over.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.camera.zoom = Math.max(0.2, Math.min(50, this.camera.zoom * Math.exp(-event.deltaY * 0.0015)));
      this.handlers.moved?.();
    }, { passive: false });
    this.over.addEventListener("dblclick", () => { this.camera.reset(); this.handlers.moved?.(); });
    this.over.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      if (!turn || this.camera.dimensions !== 3) return;
      event.preventDefault();
      event.stopPropagation();
      this.camera.yaw += turn[0];
      this.camera.pitch += turn[1];
      this.handlers.moved?.();
    });
  }

  show(lane, reach) { this.frame = { lane, reach }; this.fresh = true; this.draw(); }

  draw() {
    if (!this.frame) return;
    this.drawUnder();
    if (this.gl) this.drawPoints(); else this.drawFlat();
    this.drawOver();
    if (this.page) this.drawWhole();
  }

  sizeOf(n) { return Math.max(1.6, Math.min(7, 46 / Math.sqrt(Math.max(n, 1)) + 1.9)); }

  drawPoints() {
    const gl = this.gl, { ratio } = sized(this.points), { lane, reach } = this.frame, camera = this.camera;
    gl.viewport(0, 0, this.points.width, this.points.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const m = camera.matrix();
    gl.uniformMatrix3fv(this.at.turn, true, m);
    gl.uniform3fv(this.at.reach, reach);
    gl.uniform3fv(this.at.span, camera.span);
    gl.uniform2fv(this.at.zoom, camera.fit());
    lane.players.forEach((player, i) => {
      if (this.fresh || lane.players.length > 1) gl.bufferData(gl.ARRAY_BUFFER, player.data, gl.STREAM_DRAW);
      gl.uniform1f(this.at.size, this.sizeOf(player.n) * ratio);
      gl.uniform1f(this.at.alpha, player.n > 5000 ? 0.4 : 0.75);
      gl.uniform3fv(this.at.tint, rgb(i ? colour("fifth") : colour(this.name)));
      gl.drawArrays(gl.POINTS, 0, player.n);
    });
    this.fresh = false;
  }

  // Without a graphics card: circles for few particles, and for many of them squares that are added up pixel by pixel.
  drawFlat() {
    const { ratio, width, height } = sized(this.points), context = this.flat, { lane, reach } = this.frame;
    const w = this.points.width, h = this.points.height, many = lane.players.some((player) => player.n > 4000);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, w, h);
    const m = this.camera.matrix(), [zx, zy] = this.camera.fit(), k = reach.map((r, i) => r / this.camera.span[i] / 32767);
    const to = [m[0] * k[0], m[1] * k[1], m[2] * k[2]].map((c) => c * zx * w / 2), up = [m[3] * k[0], m[4] * k[1], m[5] * k[2]].map((c) => -c * zy * h / 2);
    if (many) return this.drawMany(context, lane, to, up, w, h, ratio);
    lane.players.forEach((player, i) => {
      const data = player.data, base = this.sizeOf(player.n) * ratio / 2;
      context.fillStyle = i ? colour("fifth") : colour(this.name);
      context.globalAlpha = 0.75;
      for (let at = 0; at < 4 * player.n; at += 4) {
        const mass = data[at + 3] / 256;
        if (mass <= 0) continue;
        const x = w / 2 + to[0] * data[at] + to[1] * data[at + 1] + to[2] * data[at + 2], y = h / 2 + up[0] * data[at] + up[1] * data[at + 1] + up[2] * data[at + 2];
        context.beginPath();
        context.arc(x, y, Math.max(0.75, base * Math.sqrt(Math.min(Math.max(mass, 0.08), 60))), 0, 6.3);
        context.fill();
      }
    });
    context.globalAlpha = 1;
  }

  drawMany(context, lane, to, up, w, h, ratio) {
    if (this.counts?.length !== w * h || this.image.width !== w) { this.image = context.createImageData(w, h); this.counts = new Uint16Array(w * h); }
    const counts = this.counts, pixels = new Uint32Array(this.image.data.buffer), side = Math.max(1, Math.round(2 * ratio));
    const [a, b, c] = to, [d, e, f] = up;
    pixels.fill(0);
    lane.players.forEach((player, i) => {
      const data = player.data, end = 4 * player.n;
      counts.fill(0);
      for (let at = 0; at < end; at += 4) {
        const mass = data[at + 3];
        if (mass <= 0) continue;
        const size = mass === 256 ? side : Math.max(1, Math.min(12, Math.round(side * Math.sqrt(mass / 256)))), half = size / 2;
        const x = (w / 2 - half + a * data[at] + b * data[at + 1] + c * data[at + 2]) | 0, y = (h / 2 - half + d * data[at] + e * data[at + 1] + f * data[at + 2]) | 0;
        if (x < 0 || y < 0 || x + size > w || y + size > h) continue;
        let place = y * w + x;
        if (size === 2) { counts[place]++; counts[place + 1]++; counts[place + w]++; counts[place + w + 1]++; continue; } // most of them
        for (let row = 0; row < size; row++, place += w) for (let k = 0; k < size; k++) counts[place + k]++;
      }
      const [red, green, blue] = rgb(i ? colour("fifth") : colour(this.name)).map((part) => Math.round(255 * part));
      const shades = Uint32Array.from({ length: 12 }, (_, count) => (Math.round(255 * (1 - 0.6 ** count)) << 24) | (blue << 16) | (green << 8) | red);
      for (let place = 0; place < counts.length; place++) { const count = counts[place]; if (count) pixels[place] = shades[count < 11 ? count : 11]; }
    });
    context.putImageData(this.image, 0, 0);
  }

  // What lies below the points: the grid, the axes, and a law to compare with. Drawn anew only where it has changed.
  drawUnder() {
    const { ratio, width, height } = sized(this.under), context = brush(this.under), { muted, grid } = paint(), camera = this.camera;
    const now = JSON.stringify([width, height, ratio, camera.span, camera.zoom, camera.dimensions === 3 && [camera.yaw, camera.pitch], camera.scene?.axes, camera.scene?.well && camera.numbers, muted]);
    if (now === this.drawn) return;
    this.drawn = now;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "10.5px system-ui, sans-serif";
    if (!camera.scene) return;
    if (camera.scene.well && camera.dimensions === 2) this.drawGibbs(context, width, height);
    if (camera.dimensions === 2) this.drawTicks(context, width, height, camera.scene, muted, grid);
    else this.drawFrame(context, width, height, camera.scene, muted);
  }

  drawOver() {
    const { ratio, width, height } = sized(this.over), context = brush(this.over), { ink } = paint(), camera = this.camera;
    const now = JSON.stringify([width, height, ratio, camera.span, camera.zoom, camera.dimensions, camera.yaw, camera.pitch, ink]);
    if (now === this.overDrawn && camera.scene === this.overScene) return;
    [this.overDrawn, this.overScene] = [now, camera.scene];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const scene = this.camera.scene;
    if (!scene) return;
    this.drawFixed(context, width, height, scene, ink);
    context.strokeStyle = ink;
    context.lineWidth = 1.6;
    for (const point of scene.teacher) {
      const [x, y] = this.camera.project(point, width, height), r = 4;
      context.beginPath();
      context.moveTo(x - r, y - r); context.lineTo(x + r, y + r); context.moveTo(x - r, y + r); context.lineTo(x + r, y - r);
      context.stroke();
    }
  }

  // The Gibbs law exp(−τV/T) of the double well V = Σ(θ² − 1)²/4, darker where it is denser.
  drawGibbs(context, width, height) {
    const { temperature, penalty } = this.camera.numbers ?? {}, { muted } = paint(), cell = 8;
    if (!(temperature > 0)) return;
    context.fillStyle = muted;
    for (let x = 0; x < width; x += cell) for (let y = 0; y < height; y += cell) {
      const [a, b] = this.camera.unproject(x + cell / 2, y + cell / 2, width, height);
      const density = Math.exp(-penalty * ((a * a - 1) ** 2 + (b * b - 1) ** 2) / 4 / temperature);
      if (density < 0.02) continue;
      context.globalAlpha = 0.4 * density;
      context.fillRect(x, y, cell, cell);
    }
    context.globalAlpha = 1;
  }

  drawTicks(context, width, height, scene, muted, grid) {
    const [zx, zy] = this.camera.fit(), [sx, sy] = this.camera.span;
    context.lineWidth = 1;
    context.strokeStyle = grid;
    context.fillStyle = muted;
    context.textAlign = "center";
    for (const t of ticks(-sx / zx, sx / zx, Math.max(2, width / 70))) {
      const [x] = this.camera.project([t, 0, 0], width, height);
      context.beginPath(); context.moveTo(x, 0); context.lineTo(x, height); context.stroke();
      if (x > 20 && x < width - 20) context.fillText(short(t), x, height - 16);
    }
    context.textAlign = "left";
    for (const t of ticks(-sy / zy, sy / zy, Math.max(2, height / 60))) {
      const [, y] = this.camera.project([0, t, 0], width, height);
      context.beginPath(); context.moveTo(0, y); context.lineTo(width, y); context.stroke();
      if (y > 12 && y < height - 30) context.fillText(short(t), 3, y - 3);
    }
    context.textAlign = "center";
    context.fillText(nice(scene.axes[0] ?? ""), width / 2, height - 4);
    context.save();
    context.translate(width - 4, height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(nice(scene.axes[1] ?? ""), 0, 0);
    context.restore();
  }

  drawFrame(context, width, height, scene, muted) {
    context.strokeStyle = muted;
    context.fillStyle = muted;
    context.lineWidth = 1;
    context.textAlign = "center";
    scene.axes.forEach((name, i) => {
      const end = [0, 0, 0];
      end[i] = this.camera.span[i];
      const [x0, y0] = this.camera.project([0, 0, 0], width, height), [x, y] = this.camera.project(end, width, height);
      context.beginPath(); context.moveTo(x0, y0); context.lineTo(x, y); context.stroke();
      context.fillText(nice(name), Math.max(40, Math.min(width - 40, x0 + 1.12 * (x - x0))), Math.max(10, Math.min(height - 4, y0 + 1.12 * (y - y0))));
    });
  }

  // E^G as far as the axes show it: a point, a line, or a plane.
  drawFixed(context, width, height, scene, ink) {
    const basis = independent(scene.fixed, scene.axes.length), reach = this.camera.span;
    if (basis.length >= scene.axes.length && scene.axes.length > 0) return;
    const far = (v) => { const k = 2 / Math.max(...v.map((c, i) => Math.abs(c) / reach[i]), 1e-12); return v.map((c) => c * k / (this.camera.dimensions === 3 ? 2 : 1)); };
    const at = (v) => this.camera.project(v, width, height);
    context.strokeStyle = ink;
    context.fillStyle = ink;
    context.lineWidth = 1.4;
    let label = at([0, 0, 0]);
    if (basis.length === 0) {
      const [x, y] = label;
      context.beginPath(); context.arc(x, y, 4, 0, 7); context.stroke();
    } else if (basis.length === 1) {
      const v = far(basis[0]), [a, b] = [at(v), at(v.map((c) => -c))];
      context.beginPath(); context.moveTo(...a); context.lineTo(...b); context.stroke();
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
    context.fillText("Eᴳ", Math.min(Math.max(label[0], 30), width - 16), Math.min(Math.max(label[1] - 6, 14), height - 34));
  }
}

// Independent directions of the span of some rows (Gram and Schmidt).
export function independent(rows, count) {
  const found = [];
  for (const row of rows) {
    let rest = row.slice(0, count);
    for (const unit of found) {
      const dot = rest.reduce((sum, c, i) => sum + c * unit[i], 0);
      rest = rest.map((c, i) => c - dot * unit[i]);
    }
    const size = Math.hypot(...rest);
    if (size > 1e-6) found.push(rest.map((c) => c / size));
  }
  return found;
}
