// The form, made from the library's own schema: what slides, what begins the run again, and what compiles.
import { element, nice, short } from "./look.js";

const GROUPS = { task: "Task", symmetry: "Symmetry", model: "Model", data: "Data and teacher", start: "Start", motion: "Motion", run: "Run", view: "View" };
const MARKS = { slides: ["", "changes at once, without compiling"], restarts: ["↻", "begins the run again, without compiling"], recompiles: ["⚙", "compiles a program (seconds) and begins the run again"], looks: ["", "changes the look alone"] };
const KNOWN = ["Cyclic(2)", "Cyclic(3)", "Cyclic(4)", "PlanarRotations(3)", "PlanarRotations(4)", "Dihedral(3)", "Dihedral(4)", "Symmetric(2)", "Symmetric(3)", "Symmetric(4)", "Alternating(4)", "Signs(1)", "Signs(2)", "Signs(3)", "Hyperoctahedral(2)", "Icosahedral", "Trivial(2)", "Cyclic(2) x Signs(1)", "Permutations (0 1 2), (0 1)", "Matrices [[0,-1],[1,0]]", "shifts of 4 columns", "flips of 2x2 images"];

const COORDINATES = ["first", "second", "third"];
// What acts only beside another choice.
const BESIDE = {
  first: (now) => now.axes === "coordinates", second: (now) => now.axes === "coordinates", third: (now) => now.axes === "coordinates" && now.dimensions === 3,
  rate: (now) => now.growth !== "none", outputs: (now) => !now.outputs_move && now.data !== "upload", exact: (now) => now.schemes.includes("DA"),
  teacher: (now) => now.data === "teacher", teacher_atoms: (now) => now.data === "teacher" && !now.teacher_points?.length, teacher_seed: (now) => now.data === "teacher" && !now.teacher_points?.length,
  input_scale: (now) => now.data === "teacher", label_noise: (now) => now.data === "teacher", batch: (now) => now.data !== "mixture",
};

export class Controls {
  constructor(home, facts, handlers) {
    Object.assign(this, { home, facts, handlers });
    this.state = { ...facts.usual };
    this.rows = new Map();
    this.build();
  }

  kind(name) { return Object.keys(MARKS).find((kind) => this.facts.acts[kind].includes(name)); }

  build() {
    const sections = new Map(Object.entries(GROUPS).map(([group, title]) => {
      const section = element("details", { dataset: { group }, open: ["task", "symmetry", "motion", "view"].includes(group) }, element("summary", { text: title }));
      this.home.append(section);
      return [group, section];
    }));
    this.home.append(element("datalist", { id: "groups" }, ...KNOWN.map((value) => element("option", { value }))));
    for (const [name, rule] of Object.entries(this.facts.schema.properties)) {
      if (!rule.group || name === "upload" || name === "teacher_points") continue;
      const row = this.row(name, rule);
      this.rows.set(name, row);
      sections.get(rule.group).append(row.element);
    }
    sections.get("data").append(this.teacherRow(), this.uploadRow());
    this.home.append(element("p", { class: "key", text: "⚙ compiles and begins again · ↻ begins again · no mark: at once" }));
  }

  row(name, rule) {
    const kind = this.kind(name), [mark, title] = MARKS[kind];
    const label = element("span", { class: "label", text: rule.title }), badge = element("span", { class: "mark", text: mark, title });
    const { input, read, write } = this.input(name, rule);
    input.id = `control-${name}`;
    const row = element("label", { class: `control ${rule.type ?? ""}`, title, for: input.id }, element("span", { class: "names" }, label, badge), input);
    return { element: row, read, write: (value) => { if (document.activeElement !== input) write(value); }, kind };
  }

  input(name, rule) {
    const changed = () => this.changed(name);
    if (name === "schemes") {
      const boxes = ["vanilla", "DA", "FA", "EA"].map((scheme) => { const box = element("input", { type: "checkbox", value: scheme, onchange: changed }); return [box, element("label", { class: "inline" }, box, scheme)]; });
      const input = element("span", { class: "boxes" }, ...boxes.map(([, label]) => label));
      const write = (value) => boxes.forEach(([box, label]) => { box.checked = value.includes(box.value); label.hidden = this.state.task === "well" && ["DA", "FA"].includes(box.value); }); // a well has no data
      return { input, read: () => boxes.filter(([box]) => box.checked).map(([box]) => box.value), write };
    }
    if (COORDINATES.includes(name)) {
      const input = element("select", { onchange: changed }), options = (names) => names.map((text, value) => element("option", { value, text: nice(text) }));
      return { input, read: () => Number(input.value), write: (value) => { const names = this.names ?? []; input.replaceChildren(...options(names)); if (names.length) input.value = value % names.length; } };
    }
    if (rule.enum) {
      const input = element("select", { onchange: changed }, ...rule.enum.map((value) => element("option", { value, text: value })));
      return { input, read: () => rule.enum[input.selectedIndex], write: (value) => { input.value = value; } };
    }
    if (rule.type === "boolean") {
      const input = element("input", { type: "checkbox", onchange: changed });
      return { input, read: () => input.checked, write: (value) => { input.checked = value; } };
    }
    if (rule.type === "string") {
      const input = element("input", { type: "text", list: name === "group" ? "groups" : null, onchange: changed, spellcheck: "false", maxlength: rule.maxLength });
      return { input, read: () => input.value, write: (value) => { input.value = value; } };
    }
    if (rule.type === "array") {
      const input = element("input", { type: "text", onchange: changed, placeholder: "0, 1.5, …", spellcheck: "false" });
      return { input, read: () => input.value.split(",").filter((part) => part.trim()).map(Number), write: (value) => { input.value = value.join(", "); } };
    }
    return this.slider(name, rule, changed);
  }

  slider(name, rule, changed) {
    const log = rule.scale === "log", whole = rule.type === "integer", most = rule.maximum ?? 1, least = rule.minimum ?? 0;
    const floor = log ? Math.max(least, most * 1e-9) : least;
    const range = element("input", { type: "range", min: 0, max: 1000, "aria-label": rule.title });
    const box = element("input", { type: "text", inputmode: "decimal", class: "number", "aria-label": `${rule.title}, as a number` });
    const to = (value) => (log ? (value <= 0 ? 0 : 1 + 999 * Math.log(Math.max(value, floor) / floor) / Math.log(most / floor)) : 1000 * (value - least) / (most - least));
    const from = (place) => {
      let value = log ? (place <= 0 ? least : floor * (most / floor) ** ((place - 1) / 999)) : least + place / 1000 * (most - least);
      if (whole) value = Math.round(value); else value = +value.toPrecision(3);
      return Math.min(most, Math.max(least, value));
    };
    let value = least;
    const wide = most - least > 1e6 && !log;
    range.hidden = wide;
    range.addEventListener("input", () => { value = from(+range.value); box.value = short(value); if (this.kind(name) === "slides" || this.kind(name) === "looks") changed(); });
    range.addEventListener("change", changed);
    box.addEventListener("change", () => { const given = Number(box.value); if (Number.isFinite(given) && box.value.trim()) { value = whole ? Math.round(given) : given; range.value = to(value); changed(); } });
    const input = element("span", { class: "slider" }, range, box);
    const write = (given) => { value = given; if (document.activeElement !== range) range.value = to(given); if (document.activeElement !== box) box.value = whole ? String(given) : short(given); };
    return { input, read: () => value, write };
  }

  teacherRow() {
    this.drawing = element("input", { type: "checkbox", id: "draw-teacher" });
    const clear = element("button", { type: "button", text: "clear", onclick: () => this.set({ teacher_points: [] }) });
    return this.drawn = element("label", { class: "control draw", title: "click in a pane (two dimensions) to put an atom of the teacher there" }, element("span", { class: "names" }, element("span", { class: "label", text: "draw the teacher by mouse" }), element("span", { class: "mark", text: "⚙" })), element("span", {}, this.drawing, " ", clear));
  }

  uploadRow() {
    this.told = element("span", { class: "quiet", text: "CSV or npz, 5 MB at most" });
    const file = element("input", { type: "file", accept: ".csv,.npz", id: "upload" });
    file.addEventListener("change", async () => {
      const [given] = file.files;
      if (!given) return;
      const ending = given.name.split(".").pop().toLowerCase();
      try {
        const answer = await fetch(`/upload?ending=${encodeURIComponent(ending)}&outputs=${this.state.upload_outputs}`, { method: "POST", body: given });
        const found = await answer.json();
        if (!answer.ok) throw new Error(found.sentence);
        this.told.textContent = `${found.rows} rows, ${found.inputs} inputs, ${found.outputs} outputs`;
        const fits = this.handlers.dimension?.() === found.inputs;
        this.set({ data: "upload", upload: found.mark, batch: 0, outputs_move: false, outputs: found.outputs, ...(fits ? {} : { group: `Symmetric(${found.inputs})` }), unit: "Perceptron", activation: "tanh", teacher_points: [], centre: [], spread: [], preset: "" });
      } catch (error) { this.told.textContent = error.message; }
      file.value = "";
    });
    return element("div", { class: "control" }, element("label", { for: "upload", class: "label", text: "own data" }), file, this.told);
  }

  // The state of the server, and the names of the particles' coordinates; only the form is changed by it.
  take(state, names = this.names) {
    this.names = names;
    this.state = { ...this.facts.usual, ...state };
    for (const [name, row] of this.rows) row.write(this.state[name]);
    for (const [name, row] of this.rows) row.element.hidden = !this.acts(name);
    this.drawn.hidden = !this.acts("teacher");
    for (const change of this.state.changes ?? []) for (const [name, value] of Object.entries(change)) if (name !== "step") this.rows.get(name)?.write(value);
  }

  set(values) {
    this.state = { ...this.state, ...values };
    for (const name of Object.keys(values)) this.rows.get(name)?.write(values[name]);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.handlers.open({ ...this.state, changes: [] }), 50);
  }

  changed(name) {
    const row = this.rows.get(name), value = row.read();
    if (row.kind === "slides") {
      this.turned = { ...this.turned, [name]: value };
      clearTimeout(this.turning);
      this.turning = setTimeout(() => { this.handlers.turn(this.turned); this.turned = {}; }, 60);
      return;
    }
    this.state = { ...this.state, [name]: value };
    clearTimeout(this.timer);
    if (row.kind === "looks") this.timer = setTimeout(() => this.handlers.look({ [name]: value }), 60);
    else this.timer = setTimeout(() => this.handlers.open({ ...this.state, changes: [] }), 250);
  }

  // Without the parts that a lesson hides, and those in which nothing acts on this task.
  hide(groups) {
    const acting = Object.entries(this.facts.schema.properties).filter(([name]) => this.acts(name)).map(([, rule]) => rule.group);
    for (const section of this.home.querySelectorAll("details")) section.hidden = groups.includes(section.dataset.group) || !acting.includes(section.dataset.group);
  }

  acts(name) { return this.facts.tasks[name].includes(this.state.task) && (BESIDE[name]?.(this.state) ?? true); }
}
