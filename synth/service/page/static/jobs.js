// The list of jobs: what is chosen goes into the address at once, and what runs is looked at again.
import { byId } from "./parts.js";
import { clocks } from "./clocks.js";

const LOOK_AGAIN_MS = 2000;
const filters = byId("filters");

filters.addEventListener("formdata", ({ formData }) => {
  for (const [name, value] of [...formData]) if (!value.trim() || (name === "order" && value === "newest")) formData.delete(name);
});
filters.addEventListener("change", (event) => { if (event.target.type !== "search") filters.requestSubmit(); });

function ticked(place) {
  return [...place.querySelectorAll("input:checked")].map((one) => one.value);
}

async function look() {
  const place = byId("jobs");
  if (!place.querySelector("[data-live]")) return;
  if (!document.hidden && !place.contains(document.activeElement)) {
    try {
      const response = await fetch(location.href);
      if (response.redirected && new URL(response.url).pathname === "/login") location.reload();
      const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("jobs");
      if (found) {
        const before = ticked(place);
        place.replaceChildren(...found.childNodes);
        for (const one of place.querySelectorAll("input")) one.checked = before.includes(one.value);
        clocks(place);
      }
    } catch { /* the server is away: later */ }
  }
  setTimeout(look, LOOK_AGAIN_MS);
}

clocks();
setTimeout(look, LOOK_AGAIN_MS);
