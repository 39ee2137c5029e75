// What all panes share: the window, the turn, and the scene that stands still.

export class Camera {
  constructor() { this.span = [1, 1, 1]; this.yaw = -0.6; this.pitch = 0.45; this.zoom = 1; this.dimensions = 2; this.scene = null; }

  reset() { this.yaw = -0.6; this.pitch = 0.45; this.zoom = 1; this.span = [0, 0, 0]; }

  see(reach) {
    const teacher = this.scene ? this.scene.teacher : [];
    this.span = this.span.map((old, i) => {
      let need = Math.max(reach[i], 1e-9);
      for (const point of teacher) need = Math.max(need, Math.abs(point[i] ?? 0));
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

  // From the numbers of a frame to pixels: the right and the down of each of its axes.
  pixels(reach, width, height) {
    const m = this.matrix(), [zx, zy] = this.fit(), unit = reach.map((r, i) => r / this.span[i] / 32767);
    return { to: unit.map((u, i) => (m[i] * u * zx * width) / 2), down: unit.map((u, i) => (-m[3 + i] * u * zy * height) / 2) };
  }

  fit() { const base = this.dimensions === 3 ? 0.68 : 0.84; return [base * this.zoom, base * this.zoom]; }

  unproject(px, py, width, height) { // two dimensions only
    const [zx, zy] = this.fit();
    return [((px / width) * 2 - 1) / zx * this.span[0], (1 - (py / height) * 2) / zy * this.span[1]];
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
