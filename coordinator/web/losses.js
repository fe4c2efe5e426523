// The lost workers, and the workers that took over their ranks.

import {byId, keepChildren, make, setText} from './dom.js';
import {clock, count, seconds} from './format.js';

const listOf = (value) => (Array.isArray(value) ? value : []);
const failuresOf = (status) => status.failures || {};

// "rank 2", "ranks 0, 1".
export const namesOf = (ranks) => `${ranks.length === 1 ? 'rank' : 'ranks'} ${ranks.join(', ')}`;

export const lossCount = (status) => failuresOf(status).losses || 0;

function carriedOn(loss) {
  const carriers = listOf(loss.carriers).map((carrier) =>
    `${namesOf(listOf(carrier.adopted))} on the worker of ${namesOf(listOf(carrier.ranks))} ` +
    `(${carrier.address})`);
  if (carriers.length === 0) return '';
  // The cost is known after the first step that follows the loss.
  const cost = Number.isFinite(loss.seconds_lost) ? ` ${seconds(loss.seconds_lost)} lost.` : '';
  return ` From step ${count(loss.first_step)} on: ${carriers.join('; ')}.${cost}`;
}

function lossSentence(loss) {
  const ranks = listOf(loss.ranks);
  const was = ranks.length === 1 ? 'was' : 'were';
  const names = namesOf(ranks);
  return `${names[0].toUpperCase()}${names.slice(1)} ${was} lost: ${loss.cause}.` + carriedOn(loss);
}

// The notice of a running run, for the top of the page; '' if no worker was lost.
export function lossNotice(status) {
  const last = listOf(failuresOf(status).last);
  if (last.length === 0) return '';
  const ranks = [...new Set(last.flatMap((loss) => listOf(loss.ranks)))].sort((a, b) => a - b);
  const workers = lossCount(status) === 1 ? 'a worker was' : `${count(lossCount(status))} workers were`;
  return `The run continues, but ${workers} lost: the others also carry ${namesOf(ranks)}, so a ` +
    'step takes as long as on the worker with the most ranks.';
}

function makeLoss() {
  const item = make('li');
  item.append(make('span', 'when muted'), make('span', 'what'));
  return item;
}

// Shows the latest loss first; hides the card if there is none.
export function showLosses(status) {
  const losses = [...listOf(failuresOf(status).last)].reverse();
  byId('losses-card').hidden = losses.length === 0;
  keepChildren(byId('losses'), losses.length, makeLoss);
  losses.forEach((loss, index) => {
    const [when, what] = byId('losses').children[index].children;
    setText(when, `${clock(loss.time)} · step ${count(loss.step)}`);
    setText(what, lossSentence(loss));
  });
  const workers = lossCount(status) === 1 ? 'worker' : 'workers';
  setText(byId('losses-sum'), `${count(lossCount(status))} ${workers}, ` +
    `${seconds(failuresOf(status).seconds_lost)} in all`);
}
