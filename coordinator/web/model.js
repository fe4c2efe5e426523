// Computes the content of the page from /status.json and /history.json. No DOM here. A missing or
// null field becomes NaN or null, never an error.

const OTHER = {name: 'other', label: 'other', about: 'not measured as a phase'};
// A rank's own work excludes this phase.
export const EXPOSED = 'exposed_communication';

// The phases of /status.json. STACK: the parts of an iteration, from the bottom of the stack to the
// top. BESIDE: phases that overlap them.
export let STACK = [OTHER];
export let BESIDE = [];

export function setPhases(status) {
  const listed = status.phases || [];
  STACK = [...listed.filter((phase) => phase.is_part), OTHER];
  BESIDE = listed.filter((phase) => !phase.is_part);
}

const number = (value) => (typeof value === 'number' ? value : NaN);

// Seconds by name of each phase; 'other' is the rest of the iteration.
export function phasesOf(entry) {
  const given = entry.phase_seconds || {};
  const phases = Object.fromEntries(BESIDE.map(({name}) => [name, number(given[name])]));
  let sum = 0;
  for (const {name} of STACK) {
    if (name === OTHER.name) continue;
    phases[name] = Math.max(0, number(given[name]) || 0);
    sum += phases[name];
  }
  phases.other = Math.max(0, (number(entry.iteration_seconds) || 0) - sum);
  return phases;
}

// Converts the points of /history.json to rows for the charts, in the order of steps.
export function rowsOf(history, ranks) {
  return ((history && history.points) || []).map((point) => {
    const seconds = number(point.iteration_seconds);
    const phases = phasesOf(point);
    return {
      step: number(point.step),
      steps: Math.max(1, number(point.steps) || 1),
      seconds,
      longest: number(point.longest_seconds),
      phases,
      loss: point.loss === null ? NaN : number(point.loss),
      exposed: phases[EXPOSED] / seconds,
      samplesPerSecond: number(point.samples_per_second),
      sentPerRank: number(point.bytes_sent) / seconds / Math.max(1, ranks),
    };
  });
}

// Returns a row: the mean over the last rows, which hold at least `steps` steps together; null
// without rows; its rates are over the whole time of these rows. NaN values are left out of the
// mean.
export function meanOfLast(rows, steps) {
  let first = rows.length;
  let counted = 0;
  while (first > 0 && counted < steps) counted += rows[--first].steps;
  if (counted === 0) return null;
  const last = rows.slice(first);
  const mean = (value) => {
    let sum = 0;
    let weight = 0;
    for (const row of last) {
      if (!Number.isFinite(value(row))) continue;
      sum += value(row) * row.steps;
      weight += row.steps;
    }
    return weight > 0 ? sum / weight : NaN;
  };
  const phases = Object.fromEntries(
    [...STACK, ...BESIDE].map(({name}) => [name, mean((row) => row.phases[name])]));
  const seconds = mean((row) => row.seconds);
  // A long step counts for as long as it took.
  const overTime = (rate) => mean((row) => rate(row) * row.seconds) / seconds;
  return {
    step: last[0].step,
    steps: counted,
    seconds,
    longest: Math.max(...last.map((row) => row.longest)),
    phases,
    loss: mean((row) => row.loss),
    exposed: phases[EXPOSED] / seconds,
    samplesPerSecond: overTime((row) => row.samplesPerSecond),
    sentPerRank: overTime((row) => row.sentPerRank),
  };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The other ranks of the worker that carries `rank`. The address identifies a worker.
export function besides(status, rank) {
  const others = ((status && status.ranks) || []).filter((other) => other.address && other !== rank);
  return others.filter((other) => other.address === rank.address).map((other) => other.rank);
}

// Returns how many workers have these ranks. A rank without an address has a worker of its own.
export const workersOf = (ranks) => new Set(ranks.map((rank) => rank.address || rank.rank)).size;

// Whether ranks of two workers have done steps.
export const canCompare = (status) =>
  workersOf((status.ranks || []).filter((rank) => number(rank.work_seconds) > 0)) > 1;

// The rank with the longest own work, compared with the median of the others that other workers
// carry: {rank, work, others, excess (seconds), share}. null without two ranks to compare.
export function slowest(status) {
  const known = ((status && status.ranks) || []).filter((rank) => number(rank.work_seconds) > 0);
  const slow = known.find((rank) => rank.rank === status.slowest_rank);
  if (slow === undefined) return null;
  const shared = [slow.rank, ...besides(status, slow)];
  const apart = known.filter((rank) => !shared.includes(rank.rank));
  if (apart.length === 0) return null;
  const others = median(apart.map((rank) => rank.work_seconds));
  const excess = slow.work_seconds - others;
  return {rank: slow.rank, work: slow.work_seconds, others, excess, share: excess / others};
}

// Minimum share of excess with which the page calls a rank a straggler.
export const STRAGGLER_SHARE = 0.1;

// Seconds until all steps are done at the pace of `recent`; NaN if unknown.
export function secondsLeft(status, recent) {
  if (!recent || !(status.total_steps > 0)) return NaN;
  return Math.max(0, status.total_steps - status.step) * recent.seconds;
}

// The tone of an event or state: 'bad', 'warn', 'good', 'run' or 'quiet'.
export function toneOf(kind) {
  const tones = {lost: 'bad', aborted: 'bad', 'not-finite': 'bad', 'not-durable': 'bad', 'checkpoint failed': 'warn', suspect: 'warn', straggler: 'warn', finished: 'good', recovered: 'good', paused: 'bad', resumed: 'good', running: 'run'};
  return Object.hasOwn(tones, kind) ? tones[kind] : 'quiet';
}
