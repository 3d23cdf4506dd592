// Before anything is drawn: dark or light as chosen before, else as the system has it.
(() => {
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const keep = (name) => { try { localStorage.setItem("theme", name); } catch { /* for this page */ } };
  const now = () => root.dataset.theme || (preferred.matches ? "dark" : "light");
  if (["dark", "light"].includes(read())) root.dataset.theme = read();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => { button.textContent = now() === "dark" ? "Light" : "Dark"; };
    button.hidden = false;
    show();
    button.addEventListener("click", () => {
      root.dataset.theme = now() === "dark" ? "light" : "dark";
      keep(root.dataset.theme);
      show();
      dispatchEvent(new Event("themechange"));
    });
    preferred.addEventListener("change", () => { show(); dispatchEvent(new Event("themechange")); });
  });
})();
