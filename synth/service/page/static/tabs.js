// Tabs for mouse and keyboard: each with a panel of its own, or sharing one that is filled when a tab is chosen.
import { byId, fill } from "./parts.js";

const panelOf = (tab) => byId(tab.getAttribute("aria-controls"));

async function choose(all, tab) {
  for (const other of all) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
    panelOf(other).hidden = panelOf(other) !== panelOf(tab);
  }
  const panel = panelOf(tab);
  panel.setAttribute("aria-labelledby", tab.id);
  panel.removeAttribute("aria-label");
  if (tab.dataset.code) await fill(panel, tab.dataset.code);
}

// Puts the visible panel into the URL, so that it can be shared and survives Back.
function note(panel) {
  history.replaceState(history.state, "", `#${panel.id}`);
}

// "seen" calls a function when a panel becomes visible; by default at once.
export function tabs(root, seen = (panel, act) => act()) {
  for (const list of root.querySelectorAll("[role=tablist]")) {
    const all = [...list.querySelectorAll("[role=tab]")];
    const act = (tab) => { choose(all, tab); if (!tab.dataset.code) note(panelOf(tab)); };
    all.forEach((tab, at) => {
      tab.addEventListener("click", () => act(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const to = step ? all[(at + step + all.length) % all.length]
          : { Home: all[0], End: all.at(-1) }[event.key];
        if (!to) return;
        event.preventDefault();
        to.focus();
        act(to);
      });
    });
    if (!all.length) continue;
    const named = all.find((tab) => location.hash && `#${panelOf(tab).id}` === location.hash);
    const first = named ?? all[0];
    first.tabIndex = 0;
    const untouched = () => all.every((tab) => tab.getAttribute("aria-selected") !== "true");
    seen(panelOf(first), () => { if (untouched()) choose(all, first); });
    const [navigation] = performance.getEntriesByType("navigation");
    if (named && !named.dataset.code && navigation?.type === "navigate") list.scrollIntoView();
  }
}
