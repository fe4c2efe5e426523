// The sentence at the top of the page: the state of the run, or that the coordinator no longer
// answers. {tone, state, text}; state is for the pill.

import {clock} from './format.js';
import {lossNotice} from './losses.js';
import {isSilent, SILENT_SECONDS} from './ranks.js';

const sentence = (text) => (text ? text.replace(/([^.!?])$/, '$1.') : '');

function list(ranks) {
  const names = ranks.map((rank) => rank.rank);
  return names.length === 1 ? `Rank ${names[0]}` : `Ranks ${names.join(', ')}`;
}

function whileRunning(status) {
  const ranks = status.ranks || [];
  const lost = ranks.filter((rank) => rank.state === 'lost');
  if (lost.length > 0) return {tone: 'bad', state: 'running', text: `${list(lost)} lost.`};
  const silent = ranks.filter(isSilent);
  if (silent.length > 0) {
    const text = `${list(silent)} silent for more than ${SILENT_SECONDS} s.`;
    return {tone: 'warn', state: 'running', text};
  }
  if (status.not_durable) {
    const text = `Steps are not recorded any more: ${sentence(status.not_durable)}`;
    return {tone: 'warn', state: 'running', text};
  }
  const text = lossNotice(status);
  return {tone: text ? 'warn' : 'run', state: 'running', text};
}

export function noticeOf(status) {
  const text = sentence(status.reason);
  switch (status.state) {
    case 'running':
      return whileRunning(status);
    case 'paused':
      return {tone: 'bad', state: 'paused', text};
    case 'waiting':
      return {tone: 'quiet', state: 'waiting', text};
    case 'finished':
      return {tone: 'good', state: 'finished', text: text || 'The run has finished.'};
    case 'aborted':
      return {tone: 'bad', state: 'aborted', text: `The run was aborted: ${text}`};
    default:
      return {tone: 'quiet', state: String(status.state), text};
  }
}

// The notice when the coordinator does not answer; `status` is the last one, or null.
export function goneNotice(status, lastHeard) {
  if (status === null) {
    const text = 'The coordinator does not answer. Trying again.';
    return {tone: 'bad', state: 'no answer', text};
  }
  const kept = `This page shows its last report, from ${clock(lastHeard)}.`;
  const last = noticeOf(status);
  if (status.state === 'finished' || status.state === 'aborted') {
    return {...last, text: `${last.text} The coordinator has ended. ${kept}`};
  }
  const text = 'The coordinator does not answer. It has ended with the run, or was lost. ' +
    `${kept} Trying again.`;
  return {tone: 'bad', state: 'no answer', text};
}
