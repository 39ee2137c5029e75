// A pane: particles, with what stands still below and above them, and the mouse and the keys that turn it.
import { Flat, Light } from "./points.js";
import { marked, marksOf } from "./births.js";
import { above, below } from "./scene.js";
import { brush, element, paint, sized, software } from "./look.js";

// A canvas that is drawn anew only where what it shows has changed.
class Layer {
  constructor(name, picture, props) { this.canvas = element("canvas", { class: name, ...props }); this.picture = picture; }

  draw(camera, marks) {
    const { ratio, width, height } = sized(this.canvas), { span, zoom, dimensions, yaw, pitch, scene, numbers } = camera;
    const now = JSON.stringify([width, height, ratio, span, zoom, dimensions === 3 && [yaw, pitch], scene?.well && numbers, paint().ink]);
    if (now === this.drawn && scene === this.scene && marks === this.marks) return;
    [this.drawn, this.scene, this.marks] = [now, scene, marks];
    const context = brush(this.canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.picture(context, width, height, camera);
    if (marks) marksOf(context, width, height, camera, marks);
  }
}

export class Pane {
  constructor(name, camera, handlers = {}) {
    Object.assign(this, { name, camera, handlers, order: handlers.order ?? 0, frame: null, marks: [] });
    this.below = new Layer("under", below, { "aria-hidden": "true" });
    this.above = new Layer("over", above, { tabindex: "0", role: "img", "aria-label": `cloud of ${name}` });
    this.under = this.below.canvas;
    this.over = this.above.canvas;
    this.points = element("canvas", { class: "points", "aria-hidden": "true" });
    this.title = element("figcaption", { text: name });
    this.figure = element("figure", { class: "pane", dataset: { lane: name } }, this.title, element("div", { class: "stack" }, this.under, this.points, this.over));
    const light = this.handlers.plain ?? software() ? null : new Light(this.points, () => this.draw());
    this.drawer = light?.gl ? light : new Flat(this.points);
    if (this.drawer instanceof Flat) this.merge();
    this.gestures();
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
      if (this.camera.dimensions === 3) this.turn(dx * 0.01, dy * 0.01);
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
    this.over.addEventListener("dblclick", () => { this.camera.reset(); this.camera.see(this.frame?.reach ?? [1, 1, 1]); this.handlers.moved?.(); });
    this.over.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      if (!turn || this.camera.dimensions !== 3) return;
      event.preventDefault();
      event.stopPropagation();
      this.turn(...turn);
    });
  }

  turn(yaw, pitch) {
    this.camera.yaw += yaw;
    this.camera.pitch = Math.max(-1.5, Math.min(1.5, this.camera.pitch + pitch));
    this.handlers.moved?.();
  }

  show(lane, { reach, step }) {
    const before = this.frame, frame = { lane, reach, step }, marks = marked(this.marks, before, frame, this.camera);
    if (marks.length || this.marks.length) this.marks = marks; // the same empty list as long as there are none
    this.frame = frame;
    this.draw();
  }

  draw() {
    if (!this.frame) return;
    this.below.draw(this.camera);
    this.drawer.draw([this.name, this.order], this.frame, this.camera);
    this.above.draw(this.camera, this.marks);
    if (this.page) this.drawWhole();
  }
}
