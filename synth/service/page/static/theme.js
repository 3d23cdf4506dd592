// Sets dark or light before anything is drawn: the stored choice, else the system's.
(() => {
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const keep = (name) => { try { localStorage.setItem("theme", name); } catch { /* applies to this page only */ } };
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
