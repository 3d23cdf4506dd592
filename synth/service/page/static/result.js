// A result: rows to choose from, a drawing of the machine, curves, timeline and code.
import { byId, data, fetchPart, fill, reveal } from "./parts.js";
import { drawMachine } from "./machine.js";
import { tabs } from "./tabs.js";
import { zoomAll } from "./timeline.js";
import "./perfetto.js";

const chosen = byId("chosen");
const onMachine = byId("on-machine");

function once(place, act) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    act();
  }, { rootMargin: "200px" });
  observer.observe(place);
}

// Curves are computed on request only: arriving by themselves, they would move the content below.
function sizes(place) {
  place.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    fill(place, place.dataset.sizes, { method: "POST" });
  });
}

function drawn() {
  if (byId("picture")) drawMachine(byId("topology"), data("picture"), byId("axis-choice"), byId("device-said"));
}

// Redraws the machine around the rank in the form.
async function find(form) {
  const query = new URLSearchParams(new FormData(form));
  const over = byId("axis-choice").value;
  history.replaceState(null, "", `?${query}`);
  await fill(byId("machine"), `${form.dataset.machine}?${query}`);
  drawn();
  byId("axis-choice").value = over;
  byId("axis-choice").dispatchEvent(new Event("change"));
  byId("rank").focus({ preventScroll: true });
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "find") return;
  event.preventDefault();
  find(event.target);
});

function open(...roots) {
  for (const root of roots) reveal(root);
  drawn();
  for (const place of document.querySelectorAll("#on-machine [data-part]")) once(place, async () => { await fill(place, place.dataset.part); zoomAll(place); });
  tabs(onMachine, once);
}

async function choose(link) {
  const answer = link.dataset.answer;
  for (const other of document.querySelectorAll("[data-answer]")) {
    const row = other.closest("tr");
    if (other === link) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  const rank = byId("rank")?.value ?? "";
  const query = new URLSearchParams(rank ? { answer, rank } : { answer });
  history.replaceState(null, "", `?${query}`);
  const parts = document.createElement("template");
  parts.innerHTML = await fetchPart(`${chosen.dataset.base}/chosen?${query}`);
  const placed = [...parts.content.querySelectorAll("[data-place]")];
  for (const part of placed) byId(part.dataset.place).replaceChildren(...part.childNodes);
  if (!placed.length) { chosen.replaceChildren(parts.content); return; }
  open(chosen, onMachine);
  chosen.scrollTop = 0;
  chosen.scrollIntoView({ block: "nearest" });
  byId("chosen-said").textContent = `${byId("chosen-title").textContent}, shown beside`;
}

document.addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.target.closest(".term")) return;
  const link = event.target.closest(".ranking tr")?.querySelector("[data-answer]");
  if (!link || !getSelection().isCollapsed) return;
  event.preventDefault();
  choose(link);
});

document.addEventListener("click", (event) => {
  const whole = event.target.closest(".whole");
  if (!whole) return;
  whole.hidden = true;
  whole.closest(".file").querySelector("pre").focus({ preventScroll: true });
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  const text = button.closest(".file").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.closest(".file").querySelector("code"));
    button.textContent = "Selected: copy with the keyboard";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 3000);
});

if (chosen) open(chosen, onMachine);
if (byId("files")) tabs(byId("files"));
if (byId("sizes")) sizes(byId("sizes"));
zoomAll();
reveal();
