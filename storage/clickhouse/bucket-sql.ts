/**
 * The beginning of the bucket that holds a moment, both in seconds since the epoch, with the values of its placeholders.
 * What lies before the first bucket belongs to it; without buckets there is one, at 0.
 */
export function bucketSql(starts: readonly number[] | undefined): {
  readonly of: (seconds: string) => string;
  readonly parameters: Readonly<Record<string, unknown>>;
} {
  if (starts === undefined || starts.length < 2) {
    const only = (starts?.[0] ?? 0) / 1000;
    return { of: () => 'toInt64({bucket_first:Int64})', parameters: { bucket_first: only } };
  }
  const seconds = starts.map((start) => start / 1000);
  const [first, second] = seconds as [number, number];
  const step = second - first;
  if (seconds.every((start, index) => start === first + index * step)) {
    const behind = (at: string): string =>
      `intDiv(greatest(${at} - {bucket_first:Int64}, 0), {bucket_step:Int64})`;
    return {
      of: (at) => `toInt64({bucket_first:Int64} + ${behind(at)} * {bucket_step:Int64})`,
      parameters: { bucket_first: first, bucket_step: step },
    };
  }
  return {
    of: (at) => `toInt64(roundDown(toInt64(${at}), {bucket_starts:Array(Int64)}))`,
    parameters: { bucket_starts: seconds },
  };
}
