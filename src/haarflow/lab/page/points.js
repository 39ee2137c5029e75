// The particles of a pane: by WebGL2 where a card draws, and by the processor where none does.
import { colour, rgb, sized } from "./look.js";

const VERTEX = `#version 300 es
in float x; in float y; in float z; in float weight;
uniform vec3 reach; uniform vec3 span; uniform mat3 turn; uniform vec2 zoom; uniform float size;
void main() {
  vec3 p = turn * (vec3(x, y, z) * reach / span);
  gl_Position = vec4(p.xy * zoom, 0.0, 1.0);
  float mass = weight * 32767.0 / 256.0;
  gl_PointSize = mass <= 0.0 ? 0.0 : clamp(size * sqrt(clamp(mass, 0.08, 60.0)), 1.5, 40.0);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
uniform vec3 tint; uniform float alpha; out vec4 found;
void main() {
  vec2 d = gl_PointCoord * 2.0 - 1.0;
  float r = dot(d, d);
  if (r > 1.0) discard;
  float a = alpha * (1.0 - smoothstep(0.6, 1.0, r));
  found = vec4(tint * a, a);
}`;
const MANY = 4000; // particles, above which squares are counted pixel by pixel instead of circles
const tint = (lane, i) => (i ? colour("fifth") : colour(...lane)); // of the second player, the fifth colour
const sizeOf = (n) => Math.max(1.6, Math.min(7, 46 / Math.sqrt(Math.max(n, 1)) + 1.9));

// WebGL2: one buffer for each player, its planes one after another.
export class Light {
  constructor(canvas, redraw) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { alpha: true, antialias: false, depth: false });
    if (!this.gl) return;
    this.begin();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.begin(); redraw(); });
  }

  begin() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.at = Object.fromEntries(["reach", "span", "turn", "zoom", "size", "tint", "alpha"].map((u) => [u, gl.getUniformLocation(program, u)]));
    this.inputs = ["x", "y", "z", "weight"].map((name) => gl.getAttribLocation(program, name));
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  draw(named, { lane, reach }, camera) {
    const { gl, canvas, at } = this, { ratio } = sized(canvas);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniformMatrix3fv(at.turn, true, camera.matrix());
    gl.uniform3fv(at.reach, reach);
    gl.uniform3fv(at.span, camera.span);
    gl.uniform2fv(at.zoom, camera.fit());
    lane.players.forEach((player, i) => {
      gl.bufferData(gl.ARRAY_BUFFER, player.data, gl.STREAM_DRAW);
      this.point(player);
      gl.uniform1f(at.size, sizeOf(player.n) * ratio);
      gl.uniform1f(at.alpha, player.n > 5000 ? 0.4 : 0.75);
      gl.uniform3fv(at.tint, rgb(tint(named, i)));
      gl.drawArrays(gl.POINTS, 0, player.n);
    });
  }

  // Where each plane lies in the buffer; a plane that a frame does not carry is one number for all.
  point({ n, planes, weights }) {
    const { gl } = this;
    [planes[0], planes[1], planes[2], weights].forEach((plane, i) => {
      const input = this.inputs[i];
      if (!plane) { gl.disableVertexAttribArray(input); gl.vertexAttrib1f(input, i < 3 ? 0 : 256 / 32767); return; }
      gl.enableVertexAttribArray(input);
      gl.vertexAttribPointer(input, 1, gl.SHORT, true, 2, 2 * n * (i < 3 ? i : planes.length));
    });
  }
}

// A plain canvas: circles for few particles, and for many of them squares that are added up pixel by pixel.
export class Flat {
  constructor(canvas) { this.canvas = canvas; this.context = canvas.getContext("2d", { willReadFrequently: true }); }

  draw(named, { lane, reach }, camera) {
    const { canvas, context } = this, { ratio } = sized(canvas), { width, height } = canvas, { to, down } = camera.pixels(reach, width, height);
    context.clearRect(0, 0, width, height);
    if (lane.players.some((player) => player.n > MANY)) return this.pixels(named, lane, to, down, ratio);
    context.globalAlpha = 0.75;
    lane.players.forEach((player, i) => { context.fillStyle = tint(named, i); circles(context, player, width / 2, height / 2, to, down, sizeOf(player.n) * ratio / 2); });
    context.globalAlpha = 1;
  }

  pixels(named, lane, to, down, ratio) {
    const { width, height } = this.canvas;
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = this.context.createImageData(width, height);
      this.found = new Uint32Array(this.image.data.buffer);
      this.counts = new Uint16Array(width * height);
    }
    this.found.fill(0);
    lane.players.forEach((player, i) => {
      this.counts.fill(0);
      scatter(this.counts, width, height, player, to, down, Math.max(1, Math.round(2 * ratio)));
      tinted(this.found, this.counts, shades(tint(named, i)));
    });
    this.context.putImageData(this.image, 0, 0);
  }
}

function circles(context, { n, planes: [xs, ys, zs], weights }, x0, y0, [a, b, c], [d, e, f], radius) {
  for (let i = 0; i < n; i++) {
    const mass = weights ? weights[i] / 256 : 1;
    if (mass <= 0) continue;
    const x = xs[i], y = ys ? ys[i] : 0, z = zs ? zs[i] : 0;
    context.beginPath();
    context.arc(x0 + a * x + b * y + c * z, y0 + d * x + e * y + f * z, Math.max(0.75, radius * Math.sqrt(Math.min(Math.max(mass, 0.08), 60))), 0, 6.3);
    context.fill();
  }
}

// How many particles lie on each pixel; each covers a square whose area is its weight. Most have the same weight.
function scatter(counts, w, h, { n, planes, weights }, to, down, side) {
  const xs = planes[0], ys = planes[1] ?? xs, zs = planes[2] ?? xs;
  const [a, b, c] = to.map((one, i) => (planes[i] ? one : 0)), [d, e, f] = down.map((one, i) => (planes[i] ? one : 0));
  for (let i = 0; i < n; i++) {
    const mass = weights ? weights[i] : 256;
    if (mass <= 0) continue;
    const size = mass === 256 ? side : Math.max(1, Math.min(12, Math.round(side * Math.sqrt(mass / 256)))), half = size / 2;
    const x = (w / 2 - half + a * xs[i] + b * ys[i] + c * zs[i]) | 0, y = (h / 2 - half + d * xs[i] + e * ys[i] + f * zs[i]) | 0;
    if (x < 0 || y < 0 || x + size > w || y + size > h) continue;
    let place = y * w + x;
    if (size === 2) { counts[place]++; counts[place + 1]++; counts[place + w]++; counts[place + w + 1]++; continue; } // most of them
    for (let row = 0; row < size; row++, place += w) for (let k = 0; k < size; k++) counts[place + k]++;
  }
}

function tinted(pixels, counts, table) {
  const most = table.length - 1;
  for (let place = 0; place < counts.length; place++) { const count = counts[place]; if (count) pixels[place] = table[count < most ? count : most]; }
}

// The colour of a pixel with 0, 1, 2, … particles, as a 32-bit number.
function shades(hex) {
  const [red, green, blue] = rgb(hex).map((part) => Math.round(255 * part));
  return Uint32Array.from({ length: 12 }, (_, count) => (Math.round(255 * (1 - 0.6 ** count)) << 24) | (blue << 16) | (green << 8) | red);
}
