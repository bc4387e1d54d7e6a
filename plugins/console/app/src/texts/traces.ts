/** Texts of traces. */
export const traces = {
  title: 'Traces',
  intro: 'Requests that belong together: one run of an agent, one visit of a user.',
  list: 'Traces',
  tree: 'Requests of the trace',
  one: 'Trace',
  noun: 'trace',
  missing:
    'Its time in the log has ended, or it is written in a moment, or your key may not see it, or its address is mistyped.',
  back: 'All traces',
  columns: {
    id: 'Trace',
    begun: 'Begun',
    requests: 'Requests',
    errors: 'Errors',
    tokens: 'Tokens',
    request: 'Request',
    status: 'Status',
    when: 'When, in the trace’s time',
    time: 'Time',
    cost: 'Cost',
  },
  at: (start: string, length: string) => `Begins after ${start}, takes ${length}`,
  truncated: 'The trace has more requests than the 1,000 oldest that are shown.',
  logs: 'Its requests in the log',
  empty: 'No trace matches',
  emptyHelp:
    'Choose a longer time, or take a filter away. Requests say their trace with the header traceparent, or x-service-trace-id.',
  page: (from: string, to: string, all: string) => `${from} to ${to} of ${all}`,
} as const;
