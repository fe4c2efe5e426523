// Small helpers for the document. Text of the coordinator is only ever set as
// text, so nothing in it is taken for HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// Leaves the element alone if it says so already: what the reader has selected, and
// what a screen reader is at, stays.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setTone(element, tone) {
  if (element.dataset.tone !== tone) element.dataset.tone = tone;
}

// Makes `parent` have exactly `count` children, by `build` and from the end.
export function keepChildren(parent, count, build) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(build(parent.children.length));
}
