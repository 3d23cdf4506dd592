// The form: rows of axes, a file read into the text, and the server's checks while the user types.
import { byId, reveal } from "./parts.js";

const form = byId("ask");
// Tables whose rows can be added and removed, if the form has any; the form's own collective is number 1.
const tables = byId("add") ? [
  { rows: byId("axes"), add: byId("add"), template: byId("axis"), what: "axis", first: 1 },
  { rows: byId("sent"), add: byId("add-sent"), template: byId("collective"), what: "collective", first: 2 },
] : [];

function number({ rows, what, first }) {
  [...rows.rows].forEach((row, at) => {
    for (const input of row.querySelectorAll("[data-label]")) {
      input.setAttribute("aria-label", `${input.dataset.label} ${at + first}`);
      if (input.type === "checkbox") input.value = at;
    }
    row.querySelector(".remove").setAttribute("aria-label", `Remove ${what} ${at + first}`);
  });
  if (what === "collective") showWeights(rows.rows.length > 0);
}

// A single collective has no weights: they are cleared when the last further collective is removed.
function showWeights(further) {
  byId("others").hidden = !further;
  if (!further) for (const name of ["times", "hidden"]) byId(name).value = "";
}

const namesOf = () => [...byId("axes").querySelectorAll("[name=axis_name]")].map((box) => box.value.trim());
const axesOf = (box) => box.value.split(",").map((name) => name.trim());

// Renames an axis in the collectives over it, unless another axis has that name while the user types.
function rename(box) {
  const [was, now] = [box.dataset.was ?? box.defaultValue.trim(), box.value.trim()];
  const names = namesOf();
  if (!now || now === was || names.filter((name) => name === now).length > 1) return;
  box.dataset.was = now;
  if (!was || names.includes(was)) return;
  for (const other of byId("sent").querySelectorAll("[name=sent_reduce]")) {
    const over = axesOf(other);
    if (over.includes(was)) other.value = over.map((name) => (name === was ? now : name)).join(", ");
  }
}

// Returns the boxes of collectives to mark as invalid: those with unknown axes, else all in non-empty rows.
function invalidBoxes() {
  const names = namesOf();
  const boxes = [...byId("sent").querySelectorAll("[data-label]")];
  const unknown = boxes.filter((box) => box.name === "sent_reduce" && box.value && !axesOf(box).every((name) => names.includes(name)));
  if (unknown.length) return unknown;
  return boxes.filter((box) => [...box.closest("tr").querySelectorAll("input")].some((input) => input.value));
}

// Removes an axis from the collectives over it, and collectives over that axis alone.
function forget(name) {
  if (!name || namesOf().includes(name)) return;
  for (const box of byId("sent").querySelectorAll("[name=sent_reduce]")) {
    const over = axesOf(box);
    const left = over.filter((axis) => axis !== name);
    if (left.length === over.length) continue;
    if (left.length) box.value = left.join(", ");
    else box.closest("tr").remove();
  }
}

function show(checked) {
  for (const place of form.querySelectorAll(".said")) {
    const name = place.id.replace(/-said$/, "");
    const text = checked.wrong[name] ?? "";
    if (place.textContent !== text) place.textContent = text;
    const rows = name === "sent" && byId("sent") ? invalidBoxes() : null;
    for (const input of form.querySelectorAll(`[aria-describedby="${place.id}"]`)) {
      if (text && (!rows || rows.includes(input))) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
  }
  for (const place of form.querySelectorAll(".told")) {
    const text = checked.facts[place.id.replace(/-told$/, "")] ?? "";
    if (place.textContent !== text) place.textContent = text;
  }
}

let checks = 0;
let timer = 0;

// Until the user chooses the machine, it follows from the logs.
let chosen = false;
form.addEventListener("input", ({ target }) => { chosen ||= ["system", "count", "own"].includes(target.name); });

function suit(values) {
  const boxes = Object.entries(values).map(([name, value]) => [byId(name), value]);
  const other = boxes.some(([box, value]) => box.value !== value);
  if (chosen || byId("own")?.value || !other) return false;
  for (const [box, value] of boxes) box.value = value;
  return true;
}

// The first check shows no problems, as the user has not typed anything yet.
async function check(first = false) {
  const id = ++checks;
  const body = new URLSearchParams(new FormData(form));
  try {
    const response = await fetch(form.dataset.check, { method: "POST", body });
    if (!response.ok || id !== checks) return;
    const checked = await response.json();
    if (suit(checked.suits)) return soon();
    show(first ? { ...checked, wrong: {} } : checked);
  } catch { /* submitting the form will report it */ }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(() => { keep(); check(); }, 250);
}

for (const table of tables) {
  const { rows, add, template } = table;
  add.addEventListener("click", () => {
    rows.append(template.content.cloneNode(true));
    number(table);
    rows.lastElementChild.querySelector("input").focus();
  });
  rows.addEventListener("click", (event) => {
    const button = event.target.closest(".remove");
    if (!button) return;
    const row = button.closest("tr");
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    forget(row.querySelector("[name=axis_name]")?.value.trim());
    tables.forEach(number);
    (next?.querySelector("input") ?? add).focus();
    soon();
  });
}
// The empty row is for browsers without scripts, which cannot add one.
for (const row of [...byId("sent")?.rows ?? []]) if (![...row.querySelectorAll("input")].some((box) => box.value)) row.remove();
tables.forEach(number);
byId("axes")?.addEventListener("focusin", ({ target }) => { if (target.name === "axis_name") target.dataset.was = target.value.trim() || (target.dataset.was ?? ""); });
byId("axes")?.addEventListener("input", ({ target }) => { if (target.name === "axis_name") rename(target); });

byId("file")?.addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  byId("own").value = await file.text();
  soon();
});

// Keeps the typed values in this entry of the browser's history, so that they survive Back and Reload.
function keep() {
  const typed = [...new FormData(form)].filter(([, value]) => typeof value === "string");
  try { history.replaceState({ ...history.state, typed }, ""); } catch { /* larger than the browser's limit */ }
}

function rowsOf(typed) {
  for (const table of tables) {
    const { name } = table.template.content.querySelector("input");
    const count = typed.filter(([key]) => key === name).length;
    while (table.rows.rows.length > count) table.rows.lastElementChild.remove();
    while (table.rows.rows.length < count) table.rows.append(table.template.content.cloneNode(true));
    number(table);
  }
  const logs = typed.filter(([key]) => key === "log_name").length;
  const last = () => [...form.querySelectorAll(".log")].at(-1);
  while (logs && form.querySelectorAll(".log").length > logs) last().remove();
  while (form.querySelectorAll(".log").length < logs) last().after(byId("log").content.cloneNode(true));
}

function restore(typed) {
  chosen = true;
  rowsOf(typed);
  const left = [...typed];
  for (const box of form.querySelectorAll("[name]")) {
    const ticks = box.type === "checkbox";
    const at = left.findIndex(([name, value]) => name === box.name && (!ticks || value === box.value));
    if (ticks) box.checked = at >= 0;
    else if (at >= 0 && (!box.options || [...box.options].some((option) => option.value === left[at][1]))) box.value = left[at][1];
    if (at >= 0) left.splice(at, 1);
    const changed = ticks ? box.checked !== box.defaultChecked : box.value !== (box.defaultValue ?? box.value);
    const folded = box.closest("details");
    if (changed && folded) folded.open = true;
  }
}

const [navigation] = performance.getEntriesByType("navigation");
if (history.state?.typed && navigation?.type !== "navigate" && !byId("problems")) restore(history.state.typed);
form.addEventListener("input", soon);
form.addEventListener("submit", keep);
reveal();
check(!byId("problems"));
byId("problems")?.focus();
