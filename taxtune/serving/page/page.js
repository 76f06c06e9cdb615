"use strict";
const at = (id) => document.getElementById(id);
const [photo, status, result, picture] = ["photo", "status", "result", "picture"].map(at);
const most = Number(document.body.dataset.mostBytes), root = document.body.dataset.root;
let asking = null;

// The heading of a result says what its status does; who cannot see it hears the status.
function say(text, trouble = false) {
  status.textContent = text;
  status.classList.toggle("trouble", trouble);
  status.classList.toggle("unseen", !result.hidden);
}

const megabytes = (bytes) => (bytes / 1048576).toFixed(1).replace(".0", "") + " MB";
const percent = (share) => (share < 1 && share >= 0.995 ? "> 99" : Math.round(share * 100)) + " %";

function content(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error("The file cannot be read."));
    reader.readAsDataURL(file);
  });
}

async function ask(address, signal) {
  const reply = await fetch("/invocations", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ inputs: { image: [address] } }),
    signal,
  });
  const text = await reply.text();
  if (!reply.ok) {
    let said = text;
    try { said = JSON.parse(text).message || text; } catch { /* not JSON: as it is */ }
    // MLflow puts all that was sent before what went wrong.
    said = said.split(/'\.\s+Error: /).pop().trim().slice(0, 500);
    throw new Error(said || "The server replied with status " + reply.status + ".");
  }
  return JSON.parse(text).predictions[0];
}

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

function show(found) {
  const last = found.nodes[found.nodes.length - 1];
  let where, remark = "";
  if (found.failure !== null) {
    where = "No answer";
    remark = found.failure;
  } else if (found.off_tree) {
    where = "Not on the tree";
    remark = "The answer names something that is not among the labels.";
  } else {
    where = last.label;
    if (found.nodes.length === 1) remark = "The answer says nothing more precise than " + root + ".";
    else remark = [last.rank, last.confidence === null ? "" : percent(last.confidence) + " sure"].filter(Boolean).join(", ");
  }
  at("where").textContent = where;
  at("remark").textContent = remark;
  at("path").hidden = found.nodes.length === 0;
  at("path").tBodies[0].replaceChildren(...found.nodes.map(row));
  at("facts").hidden = found.answer === null;
  at("answer").textContent = found.answer === null ? "" : found.answer || "(empty)";
  say(where + (remark ? ": " + remark : ""), found.failure !== null);
}

async function classify(file) {
  if (asking) asking.abort();
  const mine = (asking = new AbortController());
  result.hidden = true;
  if (file.type && !file.type.startsWith("image/")) {
    say(file.name + " is not a picture. Choose a photo, such as a JPEG or PNG file.", true);
    return;
  }
  if (file.size > most) {
    say(file.name + " has " + megabytes(file.size) + "; the limit is " + megabytes(most) + ". Choose a smaller one.", true);
    return;
  }
  const began = Date.now();
  const clock = setInterval(() => {
    const seconds = Math.round((Date.now() - began) / 1000);
    if (seconds % 15 === 0) say("Asking about " + file.name + " for " + seconds + " s …");
  }, 1000);
  say("Asking about " + file.name + " …");
  try {
    const address = await content(file);
    picture.src = address;
    picture.alt = "Your photo " + file.name;
    const found = await ask(address, mine.signal);
    result.hidden = false;
    show(found);
  } catch (error) {
    if (error.name !== "AbortError") say("No answer: " + error.message, true);
  } finally {
    clearInterval(clock);
  }
}

photo.addEventListener("change", () => { if (photo.files.length) classify(photo.files[0]); photo.value = ""; });
for (const event of ["dragenter", "dragover"]) {
  addEventListener(event, (e) => { e.preventDefault(); document.body.classList.add("over"); });
}
addEventListener("dragleave", (e) => { if (!e.relatedTarget) document.body.classList.remove("over"); });
addEventListener("drop", (e) => {
  e.preventDefault();
  document.body.classList.remove("over");
  const [file] = e.dataTransfer.files;
  if (file) classify(file);
  else say("Drop a file: what was dropped is none.", true);
});
