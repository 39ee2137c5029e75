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
})();
