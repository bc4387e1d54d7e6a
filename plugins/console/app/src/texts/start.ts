export const start = {
  title: 'Your first request',
  intro: 'Three steps, about a minute. Each of them can be changed later.',
  steps: {
    provider: 'Choose who answers',
    key: 'Make a service key',
    send: 'Send a request',
  },
  done: 'Done',
  provider: {
    mock: 'The built-in mock',
    mockHelp: 'Answers at once, costs nothing, needs no account. Good for a first look.',
    own: 'A provider of mine',
    ownHelp: 'The gateway keeps the provider’s key sealed; your applications never see it.',
    which: 'Provider',
    secret: 'Its API key',
    keyName: (provider: string) => `${provider}, first key`,
    model: 'Model',
    save: 'Keep the key',
    kept: (name: string) => `${name} is ready.`,
    go: 'Go on',
  },
  key: {
    text: 'Applications send it with each request. It is shown once.',
    name: 'Name',
    initial: 'my-first-app',
    make: 'Make the key',
    shown: 'Copy it now: only its hash is stored.',
  },
  send: {
    text: 'Copy one of these and run it where you like. This page shows the request as soon as it arrives.',
    waiting: 'Waiting for your request …',
    here: 'Or send it from here',
    /** The message that is sent from here. */
    hello: 'Hello',
    arrived: 'It arrived.',
    failed: (status: number) => `It arrived, and failed with status ${status}.`,
    fix: {
      refused:
        'The key that is kept for the provider, or the one that was made here, was refused. Load this page anew and give another one.',
      unknown:
        'The provider may not have this model: put one of its models into the request, and send it again.',
      tooMany: 'Wait a moment, or look at the quota of the account at the provider, and send it again.',
      other: 'Correct what the message says, and send it again.',
    },
    open: 'Look at it',
    home: 'See the home page',
  },
} as const;
