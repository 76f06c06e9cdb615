"use strict";
// Chooses among the held-out images, counts them, and keeps the choice in the page's address. Nothing else depends on it.
(() => {
  const gallery = document.getElementById("gallery");
  if (!gallery) return;
  const panel = gallery.querySelector(".filters");
  const status = gallery.querySelector(".count");
  const fields = Object.fromEntries([...panel.querySelectorAll("select, input")].map((field) => [field.name, field]));
  const filters = Object.keys(fields).filter((name) => name !== "template" && name !== "text");
  const cards = [...gallery.querySelectorAll("ul.gallery > li")].map((element) => ({
    element,
    text: element.textContent.toLowerCase(),
    facts: JSON.parse(element.dataset.facts),
  }));

  const template = () => (fields.template ? Number(fields.template.value) : 0);
  const values = (card, name) => card.facts[template()]?.[name] ?? [];
  const fits = (card, name) => !fields[name].value || values(card, name).includes(fields[name].value);

  // Says at each value how many images it would leave, given the other filters.
  function count(name, left) {
    const found = new Map();
    for (const card of left) for (const value of values(card, name)) found.set(value, (found.get(value) ?? 0) + 1);
    for (const option of fields[name].options) {
      if (!option.value) continue;
      option.dataset.name ??= option.textContent;
      const images = found.get(option.value) ?? 0;
      option.textContent = `${option.dataset.name} (${images})`;
      option.disabled = !images && !option.selected;
    }
  }

  function show() {
    const words = fields.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = cards.filter((card) => words.every((word) => card.text.includes(word)));
    let shown = 0;
    for (const card of cards) card.element.hidden = true;
    for (const card of found) {
      if (!filters.every((name) => fits(card, name))) continue;
      card.element.hidden = false;
      shown += 1;
    }
    for (const name of filters) {
      count(name, found.filter((card) => filters.every((other) => other === name || fits(card, other))));
    }
    const said = chosen().map(([name, field]) => {
      const option = field.selectedOptions?.[0];
      const value = option ? option.dataset.name ?? option.textContent : `“${field.value}”`;
      return `${field.closest("label").firstChild.textContent.trim().toLowerCase()}: ${value}`;
    });
    status.textContent = `${shown} of ${cards.length} images` + (shown < cards.length ? ` (${said.join("; ")}).` : ".");
  }

  const chosen = () => Object.entries(fields).filter(([, field]) => field.value);

  function keep() {
    show();
    const query = new URLSearchParams(chosen().map(([name, field]) => [name, field.value]));
    if (query.get("template") === "0") query.delete("template");
    history.replaceState(null, "", query.size ? `#gallery?${query}` : "#gallery");
  }

  // What an address says; values that this report does not have are ignored.
  function read() {
    if (!location.hash.startsWith("#gallery?")) return;
    const query = new URLSearchParams(location.hash.split("?")[1]);
    for (const [name, field] of Object.entries(fields)) {
      const value = query.get(name) ?? (name === "template" ? "0" : "");
      field.value = value;
      if (field.value !== value) field.value = name === "template" ? "0" : "";
    }
    show();
    gallery.scrollIntoView();
  }

  panel.hidden = false;
  gallery.tabIndex = -1;
  panel.addEventListener("input", keep);
  panel.querySelector("button").addEventListener("click", () => {
    for (const name of [...filters, "text"]) fields[name].value = "";
    keep();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-error]");
    if (!link) return;
    event.preventDefault();
    for (const name of [...filters, "text"]) fields[name].value = "";
    if (fields.template) fields.template.value = link.dataset.template;
    if (fields.error) fields.error.value = link.dataset.error;
    keep();
    gallery.scrollIntoView();
    gallery.focus({ preventScroll: true }); // the next Tab leads to the filters
  });
  window.addEventListener("hashchange", read);
  show();
  read();
})();
