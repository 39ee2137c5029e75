// Records of a folder: a table, a filter, a comparison of numbers, and what is being run.
import { element, short } from "./look.js";

export class RecordsView {
  constructor(home) {
    this.home = home;
    this.chosen = new Set();
    this.unfolded = new Set();
    this.filter = element("input", { type: "search", placeholder: "filter by experiment, claim, number or setting", "aria-label": "Filter records", oninput: () => this.draw() });
    this.going = element("div", { class: "going", role: "status" });
    this.compared = element("div", { class: "compared" });
    this.table = element("div");
    home.append(element("p", { class: "line" }, this.filter), this.going, this.compared, this.table);
  }

  async refresh() {
    try {
      const answer = await fetch("/api/records", { cache: "no-store" });
      if (!answer.ok) return;
      const { going, ...found } = await answer.json(), now = JSON.stringify(found);
      this.going.replaceChildren(...going.map(progress));
      if (now !== this.now) { Object.assign(this, { now, found }); this.draw(); } // a table that stays is left alone: somebody reads it
    } catch { /* the server is away; the next refresh asks again */ }
  }

  open() { this.refresh(); this.timer ??= setInterval(() => this.refresh(), 3000); }

  close() { clearInterval(this.timer); this.timer = null; }

  draw() {
    const { records, folder, sentence } = this.found ?? { records: [] };
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = records.filter((record) => { const text = JSON.stringify(record).toLowerCase(); return words.every((word) => text.includes(word)); });
    const rows = shown.map((record) => this.row(record));
    const head = element("tr", {}, ...["", "experiment", "seed", "verdicts", "seconds", "claim", ""].map((text) => element("th", { text })));
    const empty = sentence ?? `No record of the folder “${folder ?? ""}” matches.`;
    this.table.replaceChildren(rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.flat())) : element("p", { class: "quiet", text: empty }));
    this.compare(records);
  }

  row(record) {
    const total = Object.keys(record.verdicts).length, box = element("input", { type: "checkbox", "aria-label": `compare ${record.experiment}` });
    box.checked = this.chosen.has(record.mark);
    box.addEventListener("change", () => { if (box.checked) this.chosen.add(record.mark); else this.chosen.delete(record.mark); this.draw(); });
    const more = element("details", { open: this.unfolded.has(record.mark) }, element("summary", { text: record.claim }), this.facts(record));
    more.addEventListener("toggle", () => { if (more.open) this.unfolded.add(record.mark); else this.unfolded.delete(record.mark); });
    return element("tr", {}, element("td", {}, box), element("td", { text: record.experiment }), element("td", { text: record.seed }), element("td", { class: record.held === total ? "holds" : "fails", text: `${record.held === total ? "✓" : "✗"} ${record.held} of ${total}` }), element("td", { text: short(record.seconds) }), element("td", {}, more), element("td", {}, element("a", { href: `/api/records/${encodeURIComponent(record.mark)}`, target: "_blank", rel: "noopener", text: "report" })));
  }

  facts(record) {
    const verdicts = Object.entries(record.verdicts).map(([name, held]) => element("li", { class: held ? "holds" : "fails", text: `${held ? "✓" : "✗"} ${name}` }));
    const numbers = Object.entries(record.numbers).map(([name, value]) => element("li", { text: `${name}: ${typeof value === "number" ? short(value) : JSON.stringify(value)}` }));
    return element("div", {}, element("ul", {}, ...verdicts), element("ul", {}, ...numbers), element("pre", { text: record.command }));
  }

  compare(records) {
    const chosen = records.filter((record) => this.chosen.has(record.mark)).slice(0, 4);
    if (chosen.length < 2) { this.compared.replaceChildren(element("p", { class: "quiet", text: "Tick two records or more to compare their numbers and settings." })); return; }
    const parts = [["", "numbers", (value) => (typeof value === "number" ? short(value) : JSON.stringify(value))], ["setting: ", "config", JSON.stringify], ["claim: ", "verdicts", (held) => (held ? "✓ holds" : "✗ fails")]];
    const rows = parts.flatMap(([word, part, say]) => [...new Set(chosen.flatMap((record) => Object.keys(record[part])))].map((name) => {
      const cells = chosen.map((record) => (name in record[part] ? say(record[part][name]) : "–"));
      return element("tr", { class: new Set(cells).size > 1 ? "differs" : "" }, element("td", { text: word + name }), ...cells.map((text) => element("td", { text })));
    }));
    this.compared.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, element("th"), ...chosen.map((record) => element("th", { text: `${record.experiment}, seed ${record.seed}` })))), element("tbody", {}, ...rows)));
  }
}

// A run that somebody started elsewhere on this folder.
function progress({ experiment, seed, done, parts, seconds, busy }) {
  const name = seed == null ? experiment : `${experiment}, seed ${seed}`, far = `${done}${parts ? ` of ${parts}` : ""} parts done`;
  const ago = seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(0)} h`;
  const bar = parts ? element("progress", { max: parts, value: done, "aria-label": name }) : null;
  return element("p", { class: busy ? "" : "quiet" }, bar, ` ${name}: ${busy ? far : `interrupted, ${far}`}, the last ${ago} ago`);
}
