// Dead letters: looked at, delivered again by their lane, given up; one, or all of one cause. After page.js.
"use strict";
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
const MANY = {
  delivered: "have been delivered",
  deliverable: "can be delivered now, as the same events",
  newer: "have been overtaken by something newer of their key",
  unproven: "are older than the raw topic: nobody knows what has overtaken them",
  ahead: "come again by themselves: their lane was rewound to before them",
  resolved: "have been delivered or given up meanwhile",
  unknown: "are not in the topic any more",
  unable: "do not hold what is needed to deliver them alone: rewind the lane instead",
  not_taken: "are of a kind that the sink takes no more",
  rejected: "failed again, and are open still",
};
const FORCED = ["newer", "unproven"];
const SILENCE = 60000;
const lettersOf = (panel) => `${api(panel.dataset.letters)}/dead-letters`;
const count = (number) => number.toLocaleString("en");

async function letters(panel) {
  const list = panel.querySelector("[data-list]");
  try {
    const html = await ask(`/ui/pipelines/${encodeURIComponent(panel.dataset.letters)}/dead-letters`);
    if (html !== panel.last) list.innerHTML = panel.last = html; // rendered and escaped by the server
  } catch (error) {
    list.replaceChildren(text("p", error.message, "problem"));
    panel.last = "";
  }
}

async function showLetter(panel, id) {
  try {
    const letter = await ask(`${lettersOf(panel)}/${id}`);
    const body = text("pre", JSON.stringify(letter.change ?? "It cannot be decoded.", null, 2));
    const facts = `${letter.lane} · ${letter.message} · frame ${letter.frame_offset} · ${letter.commit_lsn}`;
    await dialog(letter.code, [text("p", facts), body, text("p", letter.remedy, "quiet")]);
  } catch (error) {
    await dialog("It cannot be shown", [text("p", error.message)]);
  }
}

// What has become of each that is chosen, added up over as many parts as it takes; a dry run changes nothing.
async function replay(panel, chosen, options, tell = () => {}) {
  const fates = {};
  let before = 0;
  let cursor = null;
  do {
    const started = await act(`${lettersOf(panel)}/replay`, { ...chosen, ...options, ...(cursor ? { cursor } : {}) });
    const told = await replayed(panel, started.id, (part) => tell(before + part));
    for (const [fate, letters] of Object.entries(told.fates)) fates[fate] = (fates[fate] ?? 0) + letters;
    before += told.answered;
    cursor = started.next_cursor;
  } while (cursor);
  return fates;
}

async function replayed(panel, id, tell) {
  for (let heard = Date.now(), known = 0; Date.now() < heard + SILENCE; await pause(300)) {
    const told = await ask(`${lettersOf(panel)}/replays/${id}`);
    if (told.refusals.length) throw new Error(`${told.refusals[0].message}. ${told.refusals[0].remedy}`);
    if (told.answered > known) heard = Date.now();
    tell((known = told.answered));
    if (told.done) return told;
  }
  throw new Error("The lane has not answered. Is the processor running?");
}

function nevertheless(words) {
  const input = Object.assign(document.createElement("input"), { id: "agreed", type: "checkbox" });
  const label = text("label", ` ${words}`);
  label.prepend(input);
  return [input, label];
}

async function replayLetter(panel, id, button) {
  const word = button.firstChild.data;
  button.disabled = true;
  button.firstChild.data = "Looking…";
  try {
    const [would] = Object.keys(await replay(panel, { ids: [id] }, { dry_run: true }));
    const force = FORCED.includes(would);
    const [input, label] = nevertheless("Deliver it nevertheless");
    const action = force ? "Deliver anyway" : would === "deliverable" ? "Deliver" : "";
    const content = force ? [text("p", FATES[would]), label] : [text("p", FATES[would])];
    if (!(await dialog("Replay", content, action, () => !force || input.checked)) || !action) return;
    button.firstChild.data = "Delivering…";
    const [fate] = Object.keys(await replay(panel, { ids: [id] }, { force }));
    await dialog("Replay", [text("p", FATES[fate])]);
    await letters(panel);
  } catch (error) {
    await dialog("It was not delivered", [text("p", error.message)]);
  } finally {
    button.disabled = false;
    button.firstChild.data = word;
  }
}

function summary(fates) {
  const list = text("ul", "", "fates");
  for (const [fate, letters] of Object.entries(fates)) {
    const item = text("li", ` ${MANY[fate] ?? fate}`);
    item.prepend(text("b", count(letters)));
    list.append(item);
  }
  return list;
}

async function target(panel, lane) {
  const lanes = await ask(`${api(panel.dataset.letters)}/lanes`);
  const select = Object.assign(document.createElement("select"), { id: "target" });
  select.append(new Option(`${lane}, their own lane`, ""));
  for (const each of lanes.items) if (each.sink !== lane) select.append(new Option(`${each.sink} instead: they stay open`, each.sink));
  const label = text("label", "Deliver to ");
  label.append(select);
  return [select, label];
}

async function replayAll(panel, { lane, code, ofTable, count: all }) {
  const chosen = { lane, code, table: ofTable };
  const title = `Replay ${count(Number(all))} × ${code}`;
  try {
    const [select, label] = await target(panel, lane);
    const first = text("p", "First it is looked what would become of each. Nothing is delivered yet.", "quiet");
    if (!(await dialog(title, [label, first], "Look"))) return;
    const to = select.value ? { to: select.value } : {};
    let tell = working(`${title}: looking`, "Asking the lane…");
    const would = await replay(panel, chosen, { ...to, dry_run: true }, (done) => tell(done, Number(all)));
    const overtaken = FORCED.reduce((sum, fate) => sum + (would[fate] ?? 0), 0);
    const [input, force] = nevertheless(`Deliver also the ${count(overtaken)} that something newer may have overtaken`);
    const some = () => (would.deliverable ?? 0) + (input.checked ? overtaken : 0);
    const action = would.deliverable || overtaken ? "Deliver" : "";
    if (!(await dialog(title, overtaken ? [summary(would), force] : [summary(would)], action, () => some() > 0))) return;
    tell = working(`${title}: delivering`, "Asking the lane…");
    const fates = await replay(panel, chosen, { ...to, force: input.checked }, (done) => tell(done, Number(all)));
    await letters(panel);
    await dialog(title, [summary(fates)]);
  } catch (error) {
    await dialog("It was not done to the end", [text("p", error.message)]);
    await letters(panel);
  }
}

// `chosen` by ids, or by what they have in common: then the dry run says which, and only those are given up.
async function purge(panel, chosen) {
  const path = `${lettersOf(panel)}/purge`;
  try {
    const found = await act(path, { ...chosen, dry_run: true });
    const input = Object.assign(document.createElement("input"), { id: "typed", autocomplete: "off", inputMode: "numeric" });
    const whose = found.letters === 1 ? "Its change reaches nobody then." : `${found.is_cut ? "These are the oldest. " : ""}Their changes reach nobody then.`;
    const label = text("label", `${whose} Type ${found.letters}, as many as there are, to go on.`);
    label.htmlFor = "typed";
    if (!(await dialog("Give up for ever?", [label, input], "Give up", () => input.value === String(found.letters)))) return;
    await act(path, { ...chosen, confirm: found.letters, digest: found.digest });
    await letters(panel);
  } catch (error) {
    await dialog("It was not given up", [text("p", error.message)]);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  const panel = button?.closest("[data-letters]");
  if (!panel) return;
  const group = button.closest("[data-code]")?.dataset;
  if ("refresh" in button.dataset) letters(panel);
  else if (button.dataset.show) showLetter(panel, button.dataset.show);
  else if (button.dataset.replay) replayLetter(panel, button.dataset.replay, button);
  else if (button.dataset.purge) purge(panel, { ids: [button.dataset.purge] });
  else if ("replayAll" in button.dataset) replayAll(panel, group);
  else if ("purgeAll" in button.dataset) purge(panel, { lane: group.lane, code: group.code, table: group.ofTable });
});
for (const panel of document.querySelectorAll("[data-letters]")) {
  letters(panel);
  setInterval(() => document.hidden || panel.contains(document.activeElement) || letters(panel), 5000);
}
