// The page: what the server says goes to the panes and curves, what the user does goes to the server.
import { Camera } from "./camera.js";
import { Pane } from "./clouds.js";
import { Controls } from "./controls.js";
import { Curves } from "./curves.js";
import { Functions } from "./functions.js";
import { element, nice, save, short, still, usePalette, whenResized } from "./look.js";
import { RecordsView } from "./records.js";
import { Socket } from "./socket.js";
import { Film, savePng, svg } from "./takeaway.js";
import { cloudsOf } from "./wire.js";

const $ = (id) => document.getElementById(id);
const camera = new Camera();
const panes = new Map();
const curves = new Curves($("curves"));
const functions = new Functions($("functions"));
const records = new RecordsView($("view-records"));
let facts, controls, socket, film = null, playing = false, scrubbing = false, waiting = null, opened = null, head = 0, shown = 0, now;
const query = new URLSearchParams(location.search), plain = query.has("plain") ? true : query.has("webgl") ? false : undefined; // who draws: chosen, or as the machine is
const lab = { frames: 0, moved: 0, opened: 0, connections: 0, asked: 0, step: 0, head: 0, compiled: 0 }; // frames drawn, and those of another step
lab.redraw = () => { for (const pane of panes.values()) pane.draw(); };
lab.replay = (frame) => drawFrame(frame);
lab.hear = (frame) => onBinary(frame);
lab.records = () => curves.steps;
lab.marks = () => [...panes.values()].reduce((sum, pane) => sum + pane.marks.length, 0);
window.lab = lab; // what tests and curious people look at

function redraw() { for (const pane of panes.values()) pane.draw(); curves.draw(); functions.draw(); }

function banner(text, kind = "note") {
  const place = $("banner");
  place.hidden = !text;
  place.className = `banner ${kind}`;
  place.textContent = text;
}

function layout(lanes) {
  const names = lanes.map((lane) => lane.name);
  for (const [name, pane] of panes) if (!names.includes(name)) { pane.figure.remove(); panes.delete(name); }
  for (const name of names) {
    if (!panes.has(name)) panes.set(name, new Pane(name, camera, { order: names.indexOf(name), moved: schedule, clicked: drawTeacher, plain }));
    $("panes").append(panes.get(name).figure);
  }
  $("panes").dataset.count = names.length;
}

let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => { scheduled = false; for (const pane of panes.values()) pane.draw(); });
}

function drawFrame(frame) {
  const { header } = frame, lanes = cloudsOf(frame), names = lanes.map((lane) => lane.name).join();
  if (names !== [...panes.keys()].join()) layout(lanes);
  camera.see(header.reach);
  for (const lane of lanes) panes.get(lane.name).show(lane, header);
  for (const lane of lanes) {
    const place = panes.get(lane.name).title, text = title(lane, header);
    if (place.textContent !== text) place.textContent = text;
  }
  curves.add(header.rows, header.first);
  lab.last = frame;
  lab.moved += header.step !== shown;
  ({ step: shown, head } = header);
  now = header.time;
  lab.apart = header.apart ?? 0;
  curves.shown = shown;
  const at = performance.now();
  clearTimeout(drawFrame.later); // curves and clock follow eight times a second, and once more at the end
  if (at - (drawFrame.curvesAt ?? 0) > 120) { follow(); drawFrame.curvesAt = at; } else drawFrame.later = setTimeout(follow, 150);
  Object.assign(lab, { frames: lab.frames + 1, step: shown, head, compiled: header.compiled });
}

function follow() { curves.draw(); clock(); sparse(); }

// Where rows of the curves were left out, because they hold up the pictures.
function sparse() {
  const place = $("apart"), text = lab.apart ? `Just now the curves have a point every ${lab.apart} steps: to measure more would take over a third of the time. What is copied measures every ${opened.state.every === 1 ? "step" : `${opened.state.every} steps`}.` : "";
  if (place.textContent === text) return;
  place.textContent = text;
  place.hidden = !text;
}

function title(lane, header) {
  const count = lane.players.map((player) => player.n.toLocaleString("en")).join(" + ");
  const names = lane.players.length > 1 ? ` (${lane.players.map((player) => player.name).join(", ")})` : "";
  return `${lane.name}  ·  ${count} particles${names}${lane.name in header.stopped ? "  ·  stopped" : ""}`;
}

function clock() {
  const scrub = $("scrub");
  scrub.max = Math.max(head, 1);
  if (!scrubbing) scrub.value = shown;
  const place = curves.steps.findIndex((step) => step >= shown), time = now ?? curves.times[place < 0 ? curves.times.length - 1 : place]; // between two records the frame says it
  $("clock").textContent = `step ${shown}${shown < head ? ` of ${head}` : ""} · time ${short(time ?? 0)}`;
}

// Each frame that has come is answered when it is on the screen, or when a newer one takes its place: then the next
// ones are made. So a slow page misses frames, falls behind by none, and always has one that is being made.
function onBinary(message) {
  const { header, buffer, at } = message;
  if (header.type === "file") return onFile(header, new Uint8Array(buffer, at));
  if (header.type === "function") return functions.show(header, new Float32Array(buffer, at));
  const late = waiting !== null;
  waiting = message;
  if (late) return ask();
  requestAnimationFrame(() => {
    const one = waiting;
    waiting = null;
    drawFrame(one);
    ask();
  });
}

function ask() { lab.asked += 1; socket.say({ do: "ack" }); }

function onWords(said) {
  if (said.type === "opened") onOpened(said);
  if (said.type === "turned") { controls.take(said.state); camera.numbers = numbersOf(said.state); remember(said.link, said.state); lab.turned = said; head = said.head; note(said.compiled ? "compiled" : ""); }
  if (said.type === "status") onStatus(said);
  if (said.type === "refused") { banner(said.sentence, "bad"); lab.refused = said.sentence; }
  if (said.type === "worker") { banner(said.sentence, "bad"); lab.worker = (lab.worker ?? 0) + 1; }
  if (said.type === "ended") banner(said.full ? "The run has as many records as it may; write a larger “steps between records”." : "The run has reached its last step; raise “steps of the run” to go on.");
  if (said.type === "cost") lab.cost = said;
}

function note(text) { if (text) $("status").textContent = text; }

function onStatus({ status, head: at }) {
  playing = status === "playing";
  if (at !== undefined) head = lab.head = at; // its frame may still be on the way
  const words = { playing: "playing", paused: "paused", compiling: "compiling…" };
  $("status").textContent = words[status] ?? status;
  $("status").className = `status ${status}`;
  if (status !== "compiling") $("play").textContent = playing ? "pause" : "play";
  lab.status = status;
}

function onOpened(said) {
  const fresh = !opened || said.compiled || said.seconds > 0;
  opened = said;
  lab.opened += 1;
  controls.take(said.state, said.scene.coordinates);
  camera.scene = said.scene;
  camera.numbers = numbersOf(said.state);
  camera.dimensions = Math.min(said.state.dimensions, said.scene.axes.length) === 3 ? 3 : 2;
  camera.span = [0, 0, 0];
  curves.log = said.state.log_curves;
  if (fresh) curves.clear();
  if (said.state.function === "none" || said.scene.inputs === null || said.scene.inputs > 2) functions.hide();
  banner("");
  remember(said.link, said.state);
  lesson(said.state.preset);
  if (fresh) note(said.compiled ? `compiled ${said.compiled} programs in ${said.seconds} s` : "");
}

// The numbers of now: those of the state, as they were turned on the way.
function numbersOf(state) {
  return Object.assign({ temperature: state.temperature, penalty: state.penalty }, ...(state.changes ?? []));
}

function lesson(name) {
  const found = facts.presets.find((preset) => preset.name === name);
  $("preset").value = found ? name : "";
  $("story").textContent = found ? nice(`${found.title}. ${found.story}`) : "A state of your own.";
  $("look").textContent = found ? nice(`Look: ${found.look}`) : "";
  controls.hide(found && !new URLSearchParams(location.hash.slice(1)).has("all") ? found.hides : []);
}

function remember(link) {
  lab.link = link;
  if (location.hash.slice(1) !== link) history.replaceState(null, "", `#${link}`);
}

function openFromAddress() {
  const hash = location.hash.slice(1), given = new URLSearchParams(hash);
  if (!hash) return socket.say({ do: "open", preset: "four-schemes" });
  if (given.has("preset") && [...given.keys()].every((key) => ["preset", "all"].includes(key))) return socket.say({ do: "open", preset: given.get("preset") });
  given.delete("all");
  socket.say({ do: "open", link: given.toString() });
}

function drawTeacher([x, y]) {
  if (!controls.drawing.checked || camera.dimensions !== 2 || !opened) return;
  const { matrix, p, unseen } = opened.scene;
  const atom = Array.from({ length: p }, (_, i) => +(unseen[i] + x * (matrix[i][0] ?? 0) + y * (matrix[i][1] ?? 0)).toPrecision(6));
  controls.set({ teacher_points: [...(controls.state.teacher_points ?? []), atom], preset: "" });
}

async function onFile(header, body) {
  if (["python", "toml", "command", "link"].includes(header.form)) {
    const text = header.form === "link" ? `${location.origin}/#${new TextDecoder().decode(body)}` : new TextDecoder().decode(body);
    lab.copied = text;
    let done = false;
    try { await navigator.clipboard.writeText(text); done = true; } catch { /* shown below in any case */ }
    show(`${header.form}${done ? " (copied)" : ": select and copy"}`, text);
  } else {
    lab.saved = { name: header.name, bytes: body.byteLength };
    save(header.name, new Blob([body], { type: header.media }));
  }
}

function show(title, text) {
  $("dialog-title").textContent = title;
  $("dialog-text").textContent = text;
  if (!$("dialog").open) $("dialog").showModal();
}

function take(form) {
  const all = [...panes.values()];
  if (form === "png") savePng(all, curves);
  else if (form === "svg") save("lab.svg", new Blob([svg(all, curves)], { type: "image/svg+xml" }));
  else if (form === "webm") record(all);
  else if (form) socket.say({ do: "take", form, number: 0 });
  if (["png", "svg"].includes(form)) lab.saved = { name: `lab.${form}` };
}

function record(all) {
  if (film) return film.stop();
  if (!window.MediaRecorder) return banner("This browser records no films.", "bad");
  film = new Film(all, curves, () => { lab.saved = { name: "lab.webm" }; film = null; banner(""); }, (bytes) => { lab.filmed = (lab.filmed ?? 0) + bytes; });
  banner("Recording: choose “film, WebM” again to stop. It stops by itself after a minute.");
  const one = film;
  setTimeout(() => { if (film === one) film.stop(); }, 60000);
  if (!playing) socket.say({ do: "play" });
}

function tab(name) {
  for (const one of ["lab", "records"]) { $(`view-${one}`).hidden = one !== name; $(`tab-${one}`).setAttribute("aria-selected", String(one === name)); }
  if (name === "records") records.open(); else { records.close(); redraw(); }
}

const KEYS = [["space", "play or pause"], ["→", "one record"], ["r", "begin again"], ["Home, End", "to the start, to the last step"], ["1 … 4", "a scheme on or off"], ["drag, arrows, wheel", "turn and zoom a pane; double click to begin again"], ["c", "copy as Python"], ["t", "light or dark"]];

function keys(event) {
  if (event.target.closest("input:not([type=range]):not([type=checkbox]), select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const scheme = ["vanilla", "DA", "FA", "EA"][Number(event.key) - 1];
  const act = { " ": toggle, ArrowRight: () => socket.say({ do: "step" }), r: () => socket.say({ do: "reset" }), Home: () => socket.say({ do: "seek", step: 0 }), End: () => socket.say({ do: "seek", step: head }), c: () => take("python"), t: theme, "?": help }[event.key];
  if (scheme && controls.acts("schemes")) { const now = controls.state.schemes, next = ["vanilla", "DA", "FA", "EA"].filter((one) => (one === scheme) !== now.includes(one)); if (next.length) controls.set({ schemes: next }); } else if (act) { if (event.key === " " && event.target.closest("button, summary")) return; act(); } else return;
  event.preventDefault();
}

function toggle() { socket.say({ do: playing ? "pause" : "play" }); }
function help() { show("Keys", KEYS.map(([key, what]) => `${key.padEnd(22)}${what}`).join("\n")); }
function theme() {
  const root = document.documentElement, isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  redraw();
}

function wire() {
  $("play").onclick = toggle;
  $("step").onclick = () => socket.say({ do: "step" });
  $("reset").onclick = () => socket.say({ do: "reset" });
  $("speed").onchange = () => socket.say({ do: "speed", value: Number($("speed").value) });
  $("scrub").oninput = () => { scrubbing = true; shown = Number($("scrub").value); socket.say({ do: "seek", step: shown }); };
  $("scrub").onchange = () => { scrubbing = false; };
  $("preset").onchange = () => { camera.reset(); socket.say({ do: "open", preset: $("preset").value }); };
  $("copy").onchange = () => { take($("copy").value); $("copy").value = ""; };
  $("save").onchange = () => { take($("save").value); $("save").value = ""; };
  $("theme").onclick = theme;
  $("help").onclick = help;
  for (const one of ["lab", "records"]) $(`tab-${one}`).onclick = () => tab(one);
  addEventListener("keydown", keys);
  addEventListener("hashchange", openFromAddress);
  whenResized(redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  if (still()) document.documentElement.classList.add("still");
}

async function begin() {
  const answer = await fetch("/api/schema");
  if (!answer.ok) return banner("Open the address that `haarflow lab` printed.", "bad");
  facts = await answer.json();
  usePalette(facts.palette);
  $("preset").append(element("option", { value: "", text: "(none)" }), ...facts.presets.map((preset) => element("option", { value: preset.name, text: nice(preset.title) })));
  controls = new Controls($("controls"), facts, {
    open: (state) => socket.say({ do: "open", state: { ...state, preset: state.preset ?? "" } }),
    turn: (numbers) => socket.say({ do: "turn", numbers }),
    look: (view) => { if ("log_curves" in view) { curves.log = view.log_curves; } socket.say({ do: "look", view }); },
    dimension: () => opened?.scene.inputs,
  });
  wire();
  socket = new Socket(
    () => { lab.connections += 1; banner(""); openFromAddress(); socket.say({ do: "speed", value: Number($("speed").value) }); },
    onWords,
    onBinary,
    (state) => {
      if (state === "lost") { banner("The lab is away; this page comes back when it does.", "bad"); $("status").textContent = "away"; }
      if (state === "stranger") banner("The lab was started again with another token. Open the address that `haarflow lab` printed.", "bad");
    },
  );
}

begin();
