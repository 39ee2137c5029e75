(() => {
  const root = document.documentElement, buttons = document.querySelectorAll(".themes button");
  let kept = "auto";
  try { kept = localStorage.getItem("haarflow-theme") || "auto"; } catch (error) { /* a page without storage forgets */ }
  const choose = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = theme;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.value === theme)));
    try { localStorage.setItem("haarflow-theme", theme); } catch (error) { /* the same */ }
  };
  buttons.forEach((button) => button.addEventListener("click", () => choose(button.value)));
  choose(["light", "dark"].includes(kept) ? kept : "auto");

  if (matchMedia("(max-width: 44rem)").matches) document.querySelectorAll(".glossary").forEach((one) => { one.open = false; });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));

  // A film: the marks and lines of a drawing, moved to their places in a frame; a twentieth of a point is the unit.
  const UNIT = 20, NOWHERE = 65535, WAIT = 160, LAST = 2000;  // milliseconds of a frame, and of the last one
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const read = (part) => {
    const bytes = Uint8Array.from(atob(part.places), (letter) => letter.charCodeAt(0));
    const group = document.getElementById(part.id);
    return { group, points: part.points, places: new Uint16Array(bytes.buffer), marks: [...group.querySelectorAll("use")],
      line: group.querySelector(":scope > path, :scope > g > path") };
  };
  const move = ({ points, places, marks, line }, frame) => {
    const found = [];
    for (let i = 0; i < points; i += 1) {
      const at = 2 * (frame * points + i), shown = places[at] !== NOWHERE;
      const [x, y] = shown ? [places[at] / UNIT, places[at + 1] / UNIT] : [-999, -999];
      if (shown) found.push(`${x} ${y}`);
      if (!marks.length) continue;
      if (!marks[i]) { marks[i] = marks[0].cloneNode(); marks[0].parentNode.append(marks[i]); }
      marks[i].setAttribute("x", x);
      marks[i].setAttribute("y", y);
    }
    if (line) line.setAttribute("d", found.length ? `M ${found.join(" L ")}` : "");
  };
  document.querySelectorAll("figure.film").forEach((figure) => {
    const { words, parts } = JSON.parse(figure.querySelector("script").textContent);
    const moving = parts.map(read), controls = figure.querySelector(".controls");
    const [button, slider, output] = controls.children;
    let frame = words.length - 1, playing = !still.matches, seen = false, timer = 0;
    const show = (next) => {
      frame = next;
      moving.forEach((part) => move(part, frame));
      slider.value = frame;
      output.textContent = words[frame];
    };
    const tick = () => {
      clearTimeout(timer);
      button.textContent = playing ? "Pause" : "Play";
      if (!playing || !seen) return;
      timer = setTimeout(() => { show((frame + 1) % words.length); tick(); }, frame === words.length - 1 ? LAST : WAIT);
    };
    slider.max = words.length - 1;
    controls.hidden = false;
    show(frame);
    button.addEventListener("click", () => { playing = !playing; if (playing && frame === words.length - 1) show(0); tick(); });
    slider.addEventListener("input", () => { playing = false; show(Number(slider.value)); tick(); });
    new IntersectionObserver((entries) => { seen = entries.some((entry) => entry.isIntersecting); tick(); }).observe(figure);
    tick();
  });
})();
