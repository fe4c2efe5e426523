// Small helpers for the document. They set the coordinator's texts as text only, never as HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// Does not touch an element that already has the text, to keep the reader's selection and the
// position of a screen reader.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setTone(element, tone) {
  if (element.dataset.tone !== tone) element.dataset.tone = tone;
}

// Adds children with `build`, or removes the last ones, until `parent` has `count` children.
export function keepChildren(parent, count, build) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(build(parent.children.length));
}
