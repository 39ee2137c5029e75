// A flow in a notebook: the same panes and curves as the page, driven by messages of the widget.
import { Camera } from "./camera.js";
import { Pane } from "./clouds.js";
import { Curves } from "./curves.js";
import { colour, element, short, usePalette, whenResized } from "./look.js";
import { cloudsOf, decode } from "./wire.js";

function render({ model, el }) {
  const root = element("div", { class: "haarflow-watch" }), panes = new Map(), camera = new Camera();
  const play = element("button", { text: "play" }), step = element("button", { text: "step" }), scrub = element("input", { type: "range", min: 0, max: 1, value: 0, "aria-label": "Go back" }), clock = element("output", { text: "step 0" });
  const row = element("div", { class: "panes" }), below = element("div", { class: "curves" }), curves = new Curves(below);
  root.append(element("div", { class: "transport" }, play, step, scrub, clock), row, below);
  el.append(root);
  let playing = false, head = 0;
  usePalette(model.get("palette"));
  camera.scene = model.get("scene");
  camera.dimensions = camera.scene.axes.length === 3 ? 3 : 2;
  camera.span = [0, 0, 0];
  const redraw = () => { for (const pane of panes.values()) pane.draw(); curves.draw(); }, deaf = whenResized(redraw);

  function heard(message, buffers) {
    if (message.type === "ended") { playing = false; play.textContent = "play"; return; }
    if (message.type === "refused") { playing = false; play.textContent = "play"; clock.textContent = message.sentence; return; }
    const bytes = buffers[0], view = bytes instanceof ArrayBuffer ? bytes : bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    const frame = decode(view), { header } = frame, lanes = cloudsOf(frame);
    for (const lane of lanes) {
      if (!panes.has(lane.name)) { panes.set(lane.name, new Pane(lane.name, camera, { order: panes.size, moved: redraw })); row.append(panes.get(lane.name).figure); }
    }
    camera.see(header.reach);
    for (const lane of lanes) { const pane = panes.get(lane.name); pane.figure.style.setProperty("--lane", colour(lane.name, pane.order)); pane.title.textContent = `${lane.name || "cloud"} · ${lane.players.map((one) => one.n).join(" + ")} particles`; pane.show(lane, header); }
    curves.add(header.rows, header.first);
    curves.shown = header.step;
    head = header.head;
    curves.draw();
    scrub.max = Math.max(head, 1);
    scrub.value = header.step;
    clock.textContent = `step ${header.step}${header.step < head ? ` of ${head}` : ""} · time ${short(curves.times.at(-1) ?? 0)}`;
    root.dataset.step = header.step;
    if (playing) requestAnimationFrame(() => model.send({ do: "more" }));
  }

  model.on("msg:custom", heard);
  play.onclick = () => { playing = !playing; play.textContent = playing ? "pause" : "play"; if (playing) model.send({ do: "more" }); };
  step.onclick = () => { playing = false; play.textContent = "play"; model.send({ do: "more" }); };
  scrub.oninput = () => { playing = false; play.textContent = "play"; model.send({ do: "seek", step: Number(scrub.value) }); };
  model.send({ do: "seek", step: 0 });
  return () => { deaf(); model.off("msg:custom", heard); };
}

export default { render };
