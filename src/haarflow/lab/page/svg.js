// What draws on a canvas draws a vector picture too: the few commands of a canvas that the page uses, as SVG.
const SPACE = "http://www.w3.org/2000/svg";
const round = (value) => +value.toFixed(1);
const ANCHORS = { left: "start", center: "middle", right: "end" };

export function make(tag, props, text) {
  const one = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(props)) one.setAttribute(name, value);
  if (text) one.textContent = text;
  return one;
}

export class Vector {
  constructor(home) { Object.assign(this, { home, path: "", dash: [], fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "10px sans-serif", textAlign: "left" }); }

  beginPath() { this.path = ""; }

  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }

  lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }

  closePath() { this.path += "Z"; }

  arc(x, y, r) { this.path += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`; } // whole circles alone

  setLineDash(dash) { this.dash = dash; }

  stroke() { this.home.append(make("path", { d: this.path, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": this.dash.join(" ") || "none", opacity: this.globalAlpha })); }

  fill() { this.home.append(make("path", { d: this.path, fill: this.fillStyle, opacity: this.globalAlpha })); }

  fillRect(x, y, width, height) { this.home.append(make("rect", { x: round(x), y: round(y), width, height, fill: this.fillStyle, opacity: round(100 * this.globalAlpha) / 100 })); }

  strokeRect(x, y, width, height) { this.home.append(make("rect", { x: round(x), y: round(y), width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, opacity: this.globalAlpha })); }

  strokeText(text, x, y) { this.words(text, x, y, { stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linejoin": "round", fill: "none" }); }

  fillText(text, x, y) { this.words(text, x, y, { fill: this.fillStyle }); }

  words(text, x, y, props) {
    const [, style, weight, size] = /(italic )?(bold )?([\d.]+)px/.exec(this.font);
    this.home.append(make("text", { x: round(x), y: round(y), "font-size": size, "text-anchor": ANCHORS[this.textAlign], ...(style ? { "font-style": "italic" } : {}), ...(weight ? { "font-weight": "bold" } : {}), ...props }, text));
  }

  measureText(text) { return { width: 0.58 * parseFloat(/([\d.]+)px/.exec(this.font)[1]) * text.length }; } // as wide as letters are on average
}
