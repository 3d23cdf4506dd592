// A result: rows to choose from, the picture of the machine, curves, timeline and code.
import { byId, data, fetchPart, fill, reveal } from "./parts.js";
import { drawMachine } from "./machine.js";
import { tabs } from "./tabs.js";
import { zoomAll } from "./timeline.js";
import "./perfetto.js";

const chosen = byId("chosen");
const onMachine = byId("on-machine");

function once(place, act) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    act();
  }, { rootMargin: "200px" });
  seen.observe(place);
}

// Worked out when that is asked for: what came by itself pushed away what was looked at below.
function sizes(place) {
  place.querySelector("form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    fill(place, place.dataset.sizes, { method: "POST" });
  });
}

function drawn() {
  if (byId("picture")) drawMachine(byId("topology"), data("picture"), byId("axis-choice"), byId("device-said"));
}

// The machine is drawn anew around the rank that is looked for.
async function find(form) {
  const asked = new URLSearchParams(new FormData(form));
  const over = byId("axis-choice").value;
  history.replaceState(null, "", `?${asked}`);
  await fill(byId("machine"), `${form.dataset.machine}?${asked}`);
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
  for (const one of document.querySelectorAll("[data-answer]")) {
    const row = one.closest("tr");
    if (one === link) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  const rank = byId("rank")?.value ?? "";
  const asked = new URLSearchParams(rank ? { answer, rank } : { answer });
  history.replaceState(null, "", `?${asked}`);
  const parts = document.createElement("template");
  parts.innerHTML = await fetchPart(`${chosen.dataset.base}/chosen?${asked}`);
  const placed = [...parts.content.querySelectorAll("[data-place]")];
  for (const one of placed) byId(one.dataset.place).replaceChildren(...one.childNodes);
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
