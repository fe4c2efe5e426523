// The table of ranks, and the sentences above it.

import {phaseColor} from './charts.js';
import {byId, keepChildren, make, setText, setTone} from './dom.js';
import {count, loss, NONE, percent, rate, seconds} from './format.js';
import {namesOf} from './losses.js';
import {besides, canCompare, EXPOSED, phasesOf, slowest, STACK, STRAGGLER_SHARE, toneOf,
        workersOf} from './model.js';

// A running rank without a message for this long is marked as silent. Workers send one per second.
export const SILENT_SECONDS = 3;

const COLUMNS = ['Rank', 'Address', 'State', 'Steps', 'Loss', 'Iteration', 'Own work', 'Exposed',
                 'Last step', 'Last heard', 'Peak memory'];
const NUMBERS = new Set(['Steps', 'Loss', 'Iteration', 'Own work', 'Exposed', 'Last heard',
                         'Peak memory']);

export const isSilent = (rank) => rank.state === 'running' && rank.heard_seconds > SILENT_SECONDS;

export function slowestSentence(status) {
  const ranks = status.ranks || [];
  if (ranks.length < 2) return '';
  const slow = slowest(status);
  if (slow === null && canCompare(status)) {
    return 'The ranks are even: their own work differs by chance only.';
  }
  if (slow === null) {
    const isOne = workersOf(ranks) === 1 && ranks.length === status.world_size;
    return isOne ? 'One worker carries all ranks, so there is nothing to compare.'
                 : 'Nothing to compare yet.';
  }
  const more = `${percent(slow.share)} more than the median of the others`;
  if (slow.share < STRAGGLER_SHARE) {
    return `The ranks are even: the slowest, rank ${slow.rank}, needs ${more} for its own work.`;
  }
  const others = besides(status, ranks.find((rank) => rank.rank === slow.rank));
  const why = others.length > 0 ? ` Its worker also carries ${namesOf(others)}.` : '';
  return `Rank ${slow.rank} holds up the others: its own work takes ${seconds(slow.work)} per ` +
    `iteration, ${seconds(slow.excess)} or ${more}.${why}`;
}

function makeRow() {
  const row = make('tr');
  row.setAttribute('role', 'row');
  for (const name of COLUMNS) {
    const cell = row.appendChild(make('td', NUMBERS.has(name) ? 'number' : ''));
    cell.setAttribute('role', 'cell');
    cell.dataset.label = name;
    cell.append(make('span'));
  }
  row.children[0].append(make('span', 'tag'));
  row.children[1].append(make('span', 'sharers muted'));
  row.children[2].firstChild.className = 'pill';
  row.children[8].firstChild.className = 'bar';
  row.children[8].firstChild.setAttribute('role', 'img');
  return row;
}

function showBar(bar, rank, longest) {
  const phases = phasesOf(rank);
  keepChildren(bar, STACK.length, () => make('span'));
  STACK.forEach(({name}, index) => {
    const part = bar.children[index];
    part.style.setProperty('--fill', phaseColor(name));
    part.style.width = longest > 0 ? `${(100 * phases[name]) / longest}%` : '0';
  });
  const named = STACK.filter(({name}) => phases[name] > 0);
  bar.setAttribute('aria-label', named.map(({name, label}) => `${label} ${seconds(phases[name])}`)
                                      .join(', ') || 'no step yet');
}

// A run that resumes counts the steps of its checkpoint before any rank has numbers of a step.
const hasStepped = (rank) => rank.steps_done > 0 && rank.iteration_seconds > 0;

// After a step, a loss of null is infinite or not a number, which JSON cannot hold. A program that
// reports no loss has no such field.
const lossText = (rank) =>
  (rank.loss === null && hasStepped(rank) ? 'not finite' : loss(rank.loss));

// With a parameter server, ranks may be at different steps.
const stepsText = (rank) =>
  (rank.lag > 0 ? `${count(rank.steps_done)} (${count(rank.lag)} behind)` : count(rank.steps_done));

// The spread that the rank with the most steps reports, because it is the latest.
export function spreadSentence(status) {
  const told = (status.ranks || []).filter((rank) => Number.isFinite(rank.spread));
  if (told.length === 0) return '';
  const {spread} = told.reduce((a, b) => (b.steps_done > a.steps_done ? b : a));
  const bound = (status.settings || {}).staleness || '0';
  return `The clocks of the ranks are ${count(spread)} steps apart; staleness bound: ${bound}.`;
}

// The mean of the bytes, which are about equal on all ranks; the maximum of the residuals.
export function compressionSentence(status) {
  const told = (status.ranks || []).filter((rank) => Number.isFinite(rank.compression_ratio));
  if (told.length === 0) return '';
  const share = told.reduce((sum, rank) => sum + 1 / rank.compression_ratio, 0) / told.length;
  const residuals = told.map((rank) => rank.residual_norm).filter(Number.isFinite);
  const left = residuals.length === 0 ? '' :
    `; the norm of what is left out so far is up to ${percent(Math.max(...residuals))} of theirs`;
  return `Gradients are sent in ${percent(share)} of their bytes${left}.`;
}

const memoryText = (rank) => (rank.peak_memory_bytes > 0 ? rate(rank.peak_memory_bytes, 'B') : NONE);

const heardText = (seconds) =>
  (Number.isFinite(seconds) ? `${seconds.toFixed(1)} s ago` : NONE);

function showRow(row, rank, others, longest, slow) {
  const stepped = hasStepped(rank);
  const straggles = slow !== null && slow.rank === rank.rank && slow.share >= STRAGGLER_SHARE;
  const exposed = phasesOf(rank)[EXPOSED] / rank.iteration_seconds;
  const texts = [
    String(rank.rank), rank.address || NONE, rank.state || NONE, stepsText(rank),
    lossText(rank), stepped ? seconds(rank.iteration_seconds) : NONE,
    stepped ? seconds(rank.work_seconds) : NONE, stepped ? percent(exposed) : NONE, null,
    heardText(rank.heard_seconds), memoryText(rank),
  ];
  texts.forEach((text, index) => {
    if (text !== null) setText(row.children[index].firstChild, text);
  });
  setText(row.children[0].lastChild, straggles ? 'slowest' : '');
  setText(row.children[1].lastChild, others.length > 0 ? `with ${namesOf(others)}` : '');
  setTone(row.children[2].firstChild, toneOf(rank.state));
  setTone(row.children[4], lossText(rank) === 'not finite' ? 'bad' : 'quiet');
  setTone(row.children[6], straggles ? 'warn' : 'quiet');
  setTone(row.children[9], isSilent(rank) ? 'warn' : 'quiet');
  row.classList.toggle('straggler', straggles);
  row.classList.toggle('lost', rank.state === 'lost');
  showBar(row.children[8].firstChild, rank, longest);
}

export function showRanks(status) {
  const ranks = status.ranks || [];
  const body = byId('ranks').tBodies[0];
  const slow = slowest(status);
  const longest = Math.max(0, ...ranks.map((rank) => rank.iteration_seconds || 0));
  keepChildren(body, ranks.length, makeRow);
  ranks.forEach((rank, index) => showRow(body.children[index], rank,
                                        besides(status, rank), longest, slow));
  const sentences =
    [slowestSentence(status), spreadSentence(status), compressionSentence(status)];
  setText(byId('slowest'), sentences.filter(Boolean).join(' '));
  setTone(byId('slowest'), slow !== null && slow.share >= STRAGGLER_SHARE ? 'warn' : 'quiet');
}
