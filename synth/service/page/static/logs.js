// Dropped or chosen logs become texts of the form: nothing else is sent.
import { byId, reveal } from "./parts.js";

const place = byId("logs");
const drop = place.querySelector(".drop");
const changed = () => byId("ask").dispatchEvent(new Event("input"));

async function take(files) {
  for (const file of files) {
    const empty = [...place.querySelectorAll(".log")].find((entry) => !entry.querySelector("textarea").value.trim());
    const log = empty ?? byId("log").content.cloneNode(true).querySelector(".log");
    if (!empty) [...place.querySelectorAll(".log")].at(-1).after(log);
    log.querySelector("input").value = file.name;
    log.querySelector("textarea").value = await file.text();
    reveal(log);
  }
  changed();
}

byId("baseline-file")?.addEventListener("change", async (event) => {
  byId("baseline").value = await event.target.files[0].text();
  changed();
});
byId("log-files").addEventListener("change", (event) => take(event.target.files));
for (const kind of ["dragenter", "dragover"]) {
  place.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
}
place.addEventListener("dragleave", () => drop.classList.remove("over"));
place.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  take(event.dataTransfer.files);
});
place.addEventListener("click", (event) => {
  const log = event.target.closest(".remove")?.closest(".log");
  if (!log) return;
  if (place.querySelectorAll(".log").length > 1) log.remove();
  else for (const box of log.querySelectorAll("input, textarea")) box.value = "";
  changed();
});
