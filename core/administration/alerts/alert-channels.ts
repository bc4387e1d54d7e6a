import { RecentMap } from '../../base/recent-map.ts';
import type { AlertSettings } from '../../config/alerts-schema.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Counter, Metrics } from '../../ports/metrics.ts';
import { type Mail, MailFailure, type SendMail } from './mail.ts';

/** Bounds of the jobs that send alerts. */
export const alertJobs = {
  /** Waits double from a second to an hour, so that 36 attempts take a day; ids stay known for three days. */
  patience: { attempts: 36, longestWaitMs: 3_600_000, onceForMs: 3 * 86_400_000 },
  /** A mail has several steps of up to 15 s each. */
  mailTimeoutMs: 120_000,
  /** Jobs that may wait, so that other jobs have room. */
  maxWaiting: 5000,
};

/** Dependencies of the channels. */
interface AlertChannelsPlace {
  /** Block `alerts` of the configuration in force. */
  readonly settings: () => AlertSettings;
  readonly sendMail: SendMail;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Counts the outcomes of alerts, and sends mail with the settings in force. */
export class AlertChannels {
  readonly #place: AlertChannelsPlace;
  readonly count: (labels: Record<'channel' | 'outcome', string>) => Counter;
  readonly failures: RecentFailures;

  constructor(place: AlertChannelsPlace) {
    this.#place = place;
    this.failures = new RecentFailures(place.clock);
    this.count = place.metrics.counter({
      name: 'weir_usage_alerts_total',
      help: 'Alerts by channel (mail, webhook) and outcome: sent, or permanently refused by the receiver.',
      labels: ['channel', 'outcome'],
    });
  }

  /** Sends one mail; rejects when a retry is due. `about` goes to the log, `what` names the mail there. */
  async mail(mail: Mail, what: string, about: Readonly<Record<string, unknown>>): Promise<void> {
    const { sendMail, settings, log, clock } = this.#place;
    const { smtp } = settings();
    if (smtp === undefined) {
      log.info(`${what} is not mailed: alerts.smtp is no longer configured`, about);
      return;
    }
    this.failures.check(smtp.url);
    const started = clock.monotonic();
    try {
      await sendMail(smtp, { ...mail, id: mail.id.replace(/[^A-Za-z0-9]/g, '') });
      this.count({ channel: 'mail', outcome: 'sent' }).inc();
    } catch (error) {
      if (!(error instanceof MailFailure) || error.kind !== 'refused') {
        if (error instanceof MailFailure && error.kind === 'server') this.failures.note(smtp.url, started);
        throw error;
      }
      this.count({ channel: 'mail', outcome: 'refused' }).inc();
      log.warn(`${what} was refused by the mail server and is given up`, { ...about, reason: error.message });
    }
  }
}

/**
 * Back-off per mail server: after a failure, four times the duration of the failed attempt, or as long as the server
 * asks. Many jobs for a server that swallows connections then do not block the others.
 */
class RecentFailures {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #until = new RecentMap<number>(100);

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Throws during the back-off of a server. */
  check(server: string): void {
    if ((this.#until.get(server) ?? 0) > this.#clock.monotonic())
      throw new Error('The server failed recently; the gateway retries later');
  }

  /**
   * Records a failed attempt that began at `started`; the server asked for `askedMs` of back-off, capped at an hour.
   */
  note(server: string, started: number, askedMs = 0): void {
    const now = this.#clock.monotonic();
    this.#until.set(
      server,
      now + Math.max(4 * (now - started), Math.min(askedMs, alertJobs.patience.longestWaitMs)),
    );
  }
}
