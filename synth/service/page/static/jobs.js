// The list of jobs: filters go into the URL at once, and running jobs are polled.
import { byId } from "./parts.js";
import { clocks } from "./clocks.js";

const LOOK_AGAIN_MS = 2000;
const filters = byId("filters");

filters.addEventListener("formdata", ({ formData }) => {
  for (const [name, value] of [...formData]) if (!value.trim() || (name === "order" && value === "newest")) formData.delete(name);
});
filters.addEventListener("change", (event) => { if (event.target.type !== "search") filters.requestSubmit(); });

function ticked(place) {
  return [...place.querySelectorAll("input:checked")].map((box) => box.value);
}

async function look() {
  const place = byId("jobs");
  if (!place.querySelector("[data-live]")) return;
  if (!document.hidden && !place.contains(document.activeElement)) {
    try {
      const response = await fetch(location.href);
      if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
      const list = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("jobs");
      if (list) {
        const before = ticked(place);
        place.replaceChildren(...list.childNodes);
        for (const box of place.querySelectorAll("input")) box.checked = before.includes(box.value);
        clocks(place);
      }
    } catch { /* the server cannot be reached: try again later */ }
  }
  setTimeout(look, LOOK_AGAIN_MS);
}

clocks();
setTimeout(look, LOOK_AGAIN_MS);
