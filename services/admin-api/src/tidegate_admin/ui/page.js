// Fetches what the server renders and puts it in place; a hidden page asks for nothing. Text from outside is only
// ever set as text.
"use strict";
const offline = document.getElementById("offline");
const api = (name) => `/api/v1/pipelines/${encodeURIComponent(name)}`;
const FEED = 60;

// Changes only what differs, so that focus stays and the gate's blade moves instead of being drawn anew.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh.cloneNode(true));
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.childNodes.length !== fresh.childNodes.length) return old.replaceChildren(...fresh.cloneNode(true).childNodes);
  [...old.childNodes].forEach((child, at) => morph(child, fresh.childNodes[at]));
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/ui/live", { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of fresh.querySelectorAll("[data-live]")) {
      const old = document.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
      if (old) morph(old, part);
    }
    offline.hidden = true;
  } catch {
    offline.hidden = false;
  }
}

async function keep() {
  await refresh();
  setTimeout(keep, 1000);
}

async function ask(url, options = {}) {
  const answer = await fetch(url, { signal: AbortSignal.timeout(15000), ...options });
  const body = answer.headers.get("content-type")?.includes("json") ? await answer.json() : await answer.text();
  if (answer.ok) return body;
  throw new Error(body.detail ? `${body.detail}. ${body.remedy}` : `the service answered ${answer.status}`);
}

function text(tag, content, kind) {
  const made = document.createElement(tag);
  made.textContent = content;
  if (kind) made.className = kind;
  return made;
}

// Resolves to whether it was agreed to; `agreed` decides when that may be said.
function dialog(title, content, action, agreed = () => true) {
  const box = document.getElementById("dialog");
  const ok = document.getElementById("dialog-ok");
  document.getElementById("dialog-title").textContent = title;
  document.getElementById("dialog-body").replaceChildren(...content);
  ok.hidden = !action;
  ok.textContent = action || "";
  ok.disabled = !agreed();
  box.oninput = () => (ok.disabled = !agreed());
  box.returnValue = "";
  box.showModal();
  return new Promise((done) => box.addEventListener("close", () => done(box.returnValue === "ok"), { once: true }));
}

async function letters(panel) {
  const list = panel.querySelector("[data-list]");
  try {
    const html = await ask(`/ui/pipelines/${encodeURIComponent(panel.dataset.letters)}/dead-letters`);
    if (html !== panel.last) list.innerHTML = panel.last = html; // rendered and escaped by the server
  } catch (error) {
    list.replaceChildren(text("p", error.message, "problem"));
  }
}

async function showLetter(panel, id) {
  try {
    const letter = await ask(`${api(panel.dataset.letters)}/dead-letters/${id}`);
    const body = text("pre", JSON.stringify(letter.change ?? "It cannot be decoded.", null, 2));
    const facts = `${letter.lane} · ${letter.message} · frame ${letter.frame_offset} · ${letter.commit_lsn}`;
    await dialog(letter.code, [text("p", facts), body, text("p", letter.remedy, "quiet")]);
  } catch (error) {
    await dialog("It cannot be shown", [text("p", error.message)]);
  }
}

const FATES = {
  delivered: "It has been delivered.",
  deliverable: "Nothing newer of its key has been delivered: it can be delivered now, as the same event.",
  newer: "Something newer of its key has been delivered. Delivering this now puts the older state behind it.",
  unproven: "The raw topic does not reach back to it: nobody knows whether something newer has been delivered.",
  ahead: "Its lane was rewound to before it and comes by it again.",
  resolved: "It has been delivered or given up meanwhile.",
  unknown: "It is not in the topic any more.",
  unable: "It does not hold what is needed to deliver it alone. Rewind the lane instead.",
  not_taken: "The sink takes nothing of that kind any more.",
  rejected: "It failed again, and is open still.",
};

// One letter's fate, as its lane says; a dry run changes nothing.
async function replay(panel, id, options) {
  const path = `${api(panel.dataset.letters)}/dead-letters`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? `${id}-${Date.now()}` };
  const started = await ask(`${path}/replay`, { method: "POST", headers, body: JSON.stringify({ ids: [id], ...options }) });
  for (const until = Date.now() + 60000; Date.now() < until; ) {
    const told = await ask(`${path}/replays/${started.id}`);
    if (told.refusals.length) throw new Error(`${told.refusals[0].message}. ${told.refusals[0].remedy}`);
    if (told.done) return Object.keys(told.fates)[0];
    await new Promise((done) => setTimeout(done, 300));
  }
  throw new Error("The lane has not answered. Is the processor running?");
}

async function replayLetter(panel, id, button) {
  const word = button.firstChild.data;
  button.disabled = true;
  button.firstChild.data = "Looking…";
  try {
    const would = await replay(panel, id, { dry_run: true });
    const force = would === "newer" || would === "unproven";
    const input = Object.assign(document.createElement("input"), { id: "agreed", type: "checkbox" });
    const label = text("label", " Deliver it nevertheless");
    label.prepend(input);
    const action = force ? "Deliver anyway" : would === "deliverable" ? "Deliver" : "";
    const content = force ? [text("p", FATES[would]), label] : [text("p", FATES[would])];
    if (!(await dialog("Replay", content, action, () => !force || input.checked)) || !action) return;
    button.firstChild.data = "Delivering…";
    await dialog("Replay", [text("p", FATES[await replay(panel, id, { force })])]);
    await letters(panel);
  } catch (error) {
    await dialog("It was not delivered", [text("p", error.message)]);
  } finally {
    button.disabled = false;
    button.firstChild.data = word;
  }
}

async function purgeLetter(panel, id) {
  const input = Object.assign(document.createElement("input"), { id: "typed", autocomplete: "off" });
  const label = text("label", "Its change reaches nobody then. Type 1, for one dead letter, to go on.");
  label.htmlFor = "typed";
  if (!(await dialog("Give up for ever?", [label, input], "Give up", () => input.value === "1"))) return;
  try {
    const body = JSON.stringify({ ids: [id], confirm: 1 });
    const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? `purge-${id}` };
    await ask(`${api(panel.dataset.letters)}/dead-letters/purge`, { method: "POST", headers, body });
    await letters(panel);
  } catch (error) {
    await dialog("It was not given up", [text("p", error.message)]);
  }
}

async function snapshots(panel) {
  const list = panel.querySelector("[data-list]");
  try {
    const html = await ask(`/ui/pipelines/${encodeURIComponent(panel.dataset.snapshots)}/snapshots`);
    if (html === panel.last) return;
    panel.last = html;
    const fresh = document.createElement("div");
    fresh.innerHTML = html; // rendered and escaped by the server
    fresh.setAttribute("data-list", "");
    morph(list, fresh);
  } catch (error) {
    list.replaceChildren(text("p", error.message, "problem"));
    panel.last = "";
  }
}

function field(id, label, hint) {
  const input = Object.assign(document.createElement("input"), { id, autocomplete: "off", spellcheck: false, placeholder: hint });
  const named = text("label", label);
  named.htmlFor = id;
  return [named, input];
}

async function askSnapshot(panel, path, body, failed) {
  const base = `${api(panel.dataset.snapshots)}/snapshots`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID?.() ?? `s-${Date.now()}` };
  try {
    const made = await ask(base + path, { method: "POST", headers, body: JSON.stringify(body) });
    for (const until = Date.now() + 30000; Date.now() < until; ) {
      const told = await ask(`${base}/requests/${made.id}`);
      if (told.result === "refused") throw new Error(`${told.message}. ${told.remedy}`);
      if (told.result === "done") return await snapshots(panel);
      await new Promise((done) => setTimeout(done, 300));
    }
    throw new Error("The reader has not answered. Does it run?");
  } catch (error) {
    await dialog(failed, [text("p", error.message)]);
  }
}

async function startSnapshot(panel) {
  const [label, input] = field("tables", "Tables, with commas between; empty: all that are published.", "schema.table");
  if (!(await dialog("Start a snapshot", [label, input], "Start"))) return;
  const tables = input.value.split(",").map((each) => each.trim()).filter(Boolean);
  await askSnapshot(panel, "", { tables }, "It was not started");
}

async function changeSnapshot(panel, what, id) {
  const warning = [text("p", "What is not read yet is not sent. What has been read stays where it is.")];
  if (what === "cancel" && !(await dialog("End this snapshot?", warning, "End it"))) return;
  await askSnapshot(panel, `/${id}/${what}`, undefined, "It was not done");
}

function follow(panel) {
  const button = panel.querySelector("[data-follow]");
  const note = panel.querySelector("[data-note]");
  const feed = panel.querySelector("[data-feed]");
  if (panel.source) {
    panel.source.close();
    panel.source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
    note.textContent = "Paused.";
    return;
  }
  const table = panel.querySelector("[data-table]").value.trim();
  const source = (panel.source = new EventSource(
    `${api(panel.dataset.events)}/events${table ? `?table=${encodeURIComponent(table)}` : ""}`,
  ));
  button.setAttribute("aria-pressed", "true");
  button.textContent = "Pause";
  note.textContent = "Connecting…";
  source.addEventListener("open", () => (note.textContent = "Live."));
  source.addEventListener("change", (event) => {
    feed.prepend(change(JSON.parse(event.data)));
    while (feed.children.length > FEED) feed.lastChild.remove();
  });
  source.addEventListener("dropped", () => (note.textContent = "Too slow: some may be missing here. Going on…"));
  source.addEventListener("error", () => {
    note.textContent =
      source.readyState === EventSource.CLOSED ? "Refused: rows take a token with the scope data." : "Reconnecting…";
  });
}

function change(data) {
  const item = text("li", "", data.operation.toLowerCase());
  const row = data.row ?? data.old ?? data.details;
  const shown = Object.entries(row).map(([name, value]) => `${name}=${value === null ? "∅" : value}`).join("  ");
  item.append(text("b", data.operation), text("span", data.channel, "tag"), text("code", shown), text("time", data.commit_time?.slice(11, 19) ?? ""));
  return item;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const panel = button?.closest("[data-letters], [data-events], [data-snapshots]");
  if (!panel) return;
  if ("refresh" in button.dataset) letters(panel);
  else if (button.dataset.show) showLetter(panel, button.dataset.show);
  else if (button.dataset.replay) replayLetter(panel, button.dataset.replay, button);
  else if (button.dataset.purge) purgeLetter(panel, button.dataset.purge);
  else if ("follow" in button.dataset) follow(panel);
  else if ("start" in button.dataset) startSnapshot(panel);
  else if (button.dataset.ask) changeSnapshot(panel, button.dataset.ask, button.dataset.of);
});
for (const panel of document.querySelectorAll("[data-letters]")) {
  letters(panel);
  setInterval(() => document.hidden || panel.contains(document.activeElement) || letters(panel), 5000);
}
for (const panel of document.querySelectorAll("[data-snapshots]")) {
  snapshots(panel);
  setInterval(() => document.hidden || snapshots(panel), 2000);
}
document.addEventListener("visibilitychange", refresh);
setTimeout(keep, 1000);
