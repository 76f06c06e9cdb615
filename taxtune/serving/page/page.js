"use strict";
const at = (id) => document.getElementById(id);
const [photo, folder, status, result, several, picture] =
  ["photo", "folder", "status", "result", "several", "picture"].map(at);
const most = Number(document.body.dataset.mostBytes), root = document.body.dataset.root;
const rows = at("labels").tBodies[0];
const columns = ["image", "placement", "rank", "confidence", "answer", "placement_confidence", "off_tree", "not_subject",
  "masked", "failure"];
let asking = null;

// The heading of a result says what its status does; who cannot see it hears the status.
function say(text, trouble = false) {
  status.textContent = text;
  status.classList.toggle("trouble", trouble);
  status.classList.toggle("unseen", !result.hidden && several.hidden);
}

const megabytes = (bytes) => (bytes / 1048576).toFixed(1).replace(".0", "") + " MB";
const percent = (share) => (share < 1 && share >= 0.995 ? "> 99" : Math.round(share * 100)) + " %";
const named = (file) => file.from || file.webkitRelativePath || file.name;
const isPicture = (file) => !file.type || file.type.startsWith("image/");

function unfit(file) {
  if (!isPicture(file)) return named(file) + " is not a picture. Choose a photo, such as a JPEG or PNG file.";
  if (file.size <= most) return null;
  return named(file) + " has " + megabytes(file.size) + "; the limit is " + megabytes(most) + ". Choose a smaller one.";
}

async function ask(file, signal) {
  const headers = { "Content-Type": file.type || "image/jpeg" };
  const known = new URLSearchParams();
  for (const input of document.querySelectorAll("#context input")) {
    const values = "list" in input.dataset ? input.value.split(";") : [input.value];
    for (const value of values) if (value.trim()) known.append(input.name, value.trim());
  }
  const reply = await fetch("/invocations?" + known, { method: "POST", headers, body: file, signal });
  const text = await reply.text();
  if (!reply.ok) {
    let said = text;
    try { said = JSON.parse(text).message || text; } catch { /* not JSON: as it is */ }
    throw new Error(said.slice(0, 500) || "The server replied with status " + reply.status + ".");
  }
  return JSON.parse(text).predictions[0];
}

// -- one photo --------------------------------------------------------------------------------------------------------

function cell(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

function row(node) {
  const made = document.createElement("tr");
  const name = cell("th", node.label);
  name.scope = "row";
  const sure = cell("td", "");
  if (node.confidence === null) {
    sure.textContent = "not known";
  } else {
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.setAttribute("aria-hidden", "true");
    bar.append(document.createElement("i"));
    bar.firstChild.style.width = node.confidence * 100 + "%";
    sure.className = "sure";
    sure.append(bar, percent(node.confidence));
  }
  made.append(name, cell("td", node.rank || ""), sure);
  return made;
}

function where(found) {
  if (found.failure !== null) return "No answer";
  if (found.not_subject) return "Not " + root;
  if (found.off_tree) return "Not on the tree";
  return found.nodes[found.nodes.length - 1].label;
}

function remark(found) {
  if (found.failure !== null) return found.failure;
  if (found.not_subject) return "The answer speaks of something else than " + root + ".";
  if (found.off_tree) return "The answer names something that is not among the labels.";
  if (found.nodes.length === 1) return "The answer says nothing more precise than " + root + ".";
  const last = found.nodes[found.nodes.length - 1];
  return [last.rank, last.confidence === null ? "" : percent(last.confidence) + " sure"].filter(Boolean).join(", ");
}

function show(file, found) {
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  picture.alt = "Your photo " + named(file);
  at("where").textContent = where(found);
  at("remark").textContent = remark(found);
  at("path").hidden = found.nodes.length === 0;
  at("path").tBodies[0].replaceChildren(...found.nodes.map(row));
  at("facts").hidden = found.answer === null;
  at("answer").textContent = found.answer === null ? "" : found.answer || "(empty)";
  result.hidden = false;
}

// -- several ----------------------------------------------------------------------------------------------------------

function listed(file, found) {
  const made = document.createElement("tr");
  const name = cell("th", "");
  name.scope = "row";
  const button = cell("button", named(file));
  button.type = "button";
  button.addEventListener("click", () => {
    for (const other of rows.querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
    button.setAttribute("aria-current", "true");
    show(file, found);
    result.scrollIntoView({ block: "nearest" });
  });
  name.append(button);
  const last = found.nodes[found.nodes.length - 1];
  const label = cell("td", where(found));
  if (found.failure !== null || found.nodes.length < 2) label.className = "none";
  const sure = found.nodes.length > 1 && last.confidence !== null ? percent(last.confidence) : "";
  made.append(name, label, cell("td", sure));
  rows.append(made);
}

function csv(found) {
  // What a spreadsheet would take for a formula is text there behind an apostrophe.
  const cell = (value) => (typeof value === "number" ? Math.round(value * 1e4) / 1e4 : value ?? "");
  const quoted = (value) => '"' + String(cell(value)).replace(/^(?=[=+\-@\t\r\n＝＋－＠])/, "'").replaceAll('"', '""') + '"';
  const lines = [columns, ...found.map((one) => columns.map((name) => one[name]))];
  return new Blob(["\ufeff", ...lines.map((line) => line.map(quoted).join(",") + "\r\n")], { type: "text/csv" });
}

async function classifyAll(files, mine) {
  const done = [];
  let failed = 0;
  rows.replaceChildren();
  several.hidden = false;
  Object.assign(at("progress"), { max: files.length, value: 0, hidden: false });
  at("stop").hidden = false;
  at("csv").hidden = true;
  for (const file of files) {
    say("Asking about " + named(file) + " (" + (done.length + 1) + " of " + files.length + ") …");
    let found;
    try {
      const bad = unfit(file);
      if (bad) throw new Error(bad);
      found = await ask(file, mine.signal);
    } catch (error) {
      if (error.name === "AbortError") break;
      found = { failure: error.message, nodes: [], answer: null, off_tree: false, not_subject: false };
    }
    failed += found.failure !== null;
    done.push({ ...found, image: named(file) });
    listed(file, found);
    at("progress").value = done.length;
  }
  if (asking !== mine) return;
  at("progress").hidden = at("stop").hidden = true;
  URL.revokeObjectURL(at("csv").href);
  at("csv").href = URL.createObjectURL(csv(done));
  at("csv").hidden = done.length === 0;
  const count = done.length < files.length ? done.length + " of " + files.length : String(files.length);
  say(count + " photos done" + (failed ? "; " + failed + " without an answer" : "") + ".", failed === done.length);
}

async function classifyOne(file, mine) {
  const bad = unfit(file);
  if (bad) return say(bad, true);
  const began = Date.now();
  const clock = setInterval(() => {
    const seconds = Math.round((Date.now() - began) / 1000);
    if (seconds % 15 === 0) say("Asking about " + named(file) + " for " + seconds + " s …");
  }, 1000);
  say("Asking about " + named(file) + " …");
  try {
    const found = await ask(file, mine.signal);
    show(file, found);
    const more = remark(found);
    say(where(found) + (more ? ": " + more : ""), found.failure !== null);
  } catch (error) {
    if (error.name !== "AbortError") say("No answer: " + error.message, true);
  } finally {
    clearInterval(clock);
  }
}

function classify(files) {
  if (asking) asking.abort();
  asking = new AbortController();
  result.hidden = several.hidden = true;
  if (files.length === 1) classifyOne(files[0], asking);
  else if (files.length) classifyAll(files, asking);
  else say("There is no photo in it. Choose photos, such as JPEG or PNG files.", true);
}

// -- choosing ---------------------------------------------------------------------------------------------------------

const sorted = (files) => files.sort((a, b) => named(a).localeCompare(named(b), undefined, { numeric: true }));

// All files of what was dropped, with those in folders.
async function dropped(entry, inFolder = false) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    file.from = entry.fullPath.replace(/^\//, "");
    return inFolder && !(file.type.startsWith("image/")) ? [] : [file];
  }
  const reader = entry.createReader(), found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    for (const each of some) found.push(...await dropped(each, true));
  }
  return found;
}

photo.addEventListener("change", () => { if (photo.files.length) classify([...photo.files]); photo.value = ""; });
folder.addEventListener("change", () => {
  // A folder holds other things, too.
  if (folder.files.length) classify(sorted([...folder.files].filter((file) => file.type.startsWith("image/"))));
  folder.value = "";
});
at("stop").addEventListener("click", () => asking.abort());
for (const event of ["dragenter", "dragover"]) {
  addEventListener(event, (e) => { e.preventDefault(); document.body.classList.add("over"); });
}
addEventListener("dragleave", (e) => { if (!e.relatedTarget) document.body.classList.remove("over"); });
addEventListener("drop", async (e) => {
  e.preventDefault();
  document.body.classList.remove("over");
  // Both are gone after the first wait.
  const files = [...e.dataTransfer.files];
  const entries = [...e.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
  if (entries.some((entry) => entry && entry.isDirectory)) {
    const found = await Promise.all(entries.filter(Boolean).map((entry) => dropped(entry)));
    classify(sorted(found.flat()));
  } else if (files.length) classify(files);
  else say("Drop a file: what was dropped is none.", true);
});
