/** Texts of feedback. */
export const feedback = {
  title: 'Feedback',
  intro:
    'What people and guardrails say of answers, from −10 to 10. It is given with POST /feedback, or on a request in the log.',
  average: 'Average, by weight',
  given: 'Given',
  over: 'Over time',
  scores: 'Scores',
  models: 'By model',
  columns: { model: 'Model', total: 'Given', average: 'Average' },
  newest: 'What was given, newest first',
  entry: { time: 'Given', value: 'Value', weight: 'Weight', comment: 'Comment', by: 'By', trace: 'Trace' },
  shown: (from: string, to: string, all: string) => `${from}–${to} of ${all}`,
  score: 'Score',
  ofScore: (score: string) => `What was given with ${score}`,
  everyScore: 'Show every value',
  of: (n: string) => `× ${n}`,
  good: 'Requests with good feedback',
  bad: 'Requests with bad feedback',
  empty: 'No feedback in this time',
  emptyHelp: 'Open a request in the log and press a thumb, or send POST /feedback with its trace.',
  logs: 'To the log',
} as const;
