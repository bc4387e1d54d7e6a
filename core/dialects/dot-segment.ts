/**
 * `.` and `..` segments in every spelling that some server understands (percent-encoded once or more, between
 * backslashes, before a `;` or the `:` of an operation): upstream they could leave the provider's base path.
 */
export function hasDotSegment(path: string): boolean {
  if (!path.includes('/.') && !path.includes('%') && !path.includes('\\')) return false;
  return /(?:[/\\]|%(?:25)*(?:2f|5c))(?:\.|%(?:25)*2e){1,2}(?:[/\\;:]|%(?:25)*(?:2f|5c|3b|3a)|$)/i.test(path);
}
