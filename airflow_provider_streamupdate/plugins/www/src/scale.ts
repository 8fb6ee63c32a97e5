/** Lengths of time as parts of a width, to scale, so that a long wait does not squeeze the rest into nothing. */

export interface Room {
  /** Of the whole width, from 0 to 1. */
  width: number;
  /** Whether it is longer than its room says: it is drawn with a break. */
  cut: boolean;
}

const MUCH = 6; // so many times as long as all others together: it is cut
const CUT_ROOM = 0.14; // of the width, for one that is cut

export function rooms(lengths: number[]): Room[] {
  const cut = new Set<number>();
  const sum = (): number => lengths.reduce((all, length, n) => (cut.has(n) ? all : all + length), 0);
  for (; lengths.length - cut.size > 1; ) {
    const rest = lengths.map((length, n) => (cut.has(n) ? -1 : length));
    const longest = rest.indexOf(Math.max(...rest));
    const others = sum() - lengths[longest]!;
    if (others <= 0 || lengths[longest]! <= MUCH * others || cut.size === 3) break;
    cut.add(longest);
  }
  const scaled = sum();
  const left = 1 - CUT_ROOM * cut.size;
  return lengths.map((length, n) =>
    cut.has(n) ? { width: CUT_ROOM, cut: true } : { width: scaled > 0 ? (length / scaled) * left : left / Math.max(1, lengths.length - cut.size), cut: false },
  );
}
