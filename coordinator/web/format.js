// Formats numbers with their units. Values that are not finite numbers become an en dash.

export const NONE = '–';

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

// Three significant digits, without an exponent and without needless zeros.
function digits(value) {
  if (value === 0) return '0';
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(places, 12))));
}

// A short time: "320 µs", "51.2 ms", "1.23 s".
export function seconds(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size < 0.5e-6) return '0 ms';
  if (size < 0.9995e-3) return `${digits(value * 1e6)} µs`;
  if (size < 0.9995) return `${digits(value * 1e3)} ms`;
  if (size < 120) return `${digits(value)} s`;
  return duration(value);
}

// A long time: "40 s", "2 min 05 s", "3 h 12 min", "2 d 4 h".
export function duration(value) {
  if (!isNumber(value)) return NONE;
  const whole = Math.max(0, Math.round(value));
  const pair = (large, largeUnit, small, smallUnit) =>
    `${large} ${largeUnit} ${String(small).padStart(2, '0')} ${smallUnit}`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86400) return pair(Math.floor(whole / 3600), 'h', Math.floor(whole / 60) % 60, 'min');
  return pair(Math.floor(whole / 86400), 'd', Math.floor(whole / 3600) % 24, 'h');
}

export function percent(share) {
  if (!isNumber(share)) return NONE;
  const value = share * 100;
  return `${Math.abs(value) < 9.95 ? Number(value.toFixed(1)) : Math.round(value)} %`;
}

export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString('en') : NONE;
}

// Like count, but a few have three significant digits: "0.214", "2.5", "1,234".
export function amount(value) {
  return isNumber(value) && Math.abs(value) < 99.95 ? digits(value) : count(value);
}

export function loss(value) {
  if (!isNumber(value)) return NONE;
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) {
    return value.toExponential(2);
  }
  return String(Number(value.toPrecision(4)));
}

// With decimal prefixes ("k" is 1000): "B/s", "MB/s", or with another unit.
export function rate(value, unit = 'B/s') {
  if (!isNumber(value)) return NONE;
  const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
  let index = 0;
  while (Math.abs(value) >= 999.5 && index + 1 < prefixes.length) {
    value /= 1000;
    index += 1;
  }
  return `${digits(value)} ${prefixes[index]}${unit}`;
}

// Unix seconds as a time in the reader's time zone: "14:03:59".
export function clock(unixSeconds) {
  if (!isNumber(unixSeconds)) return NONE;
  return new Date(unixSeconds * 1000).toLocaleTimeString('en-GB');
}
