import { RecentMap } from '../../base/recent-map.ts';
import type { AlertSettings } from '../../config/alerts-schema.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Counter, Metrics } from '../../ports/metrics.ts';
import { type Mail, MailFailure, type SendMail } from './mail.ts';

/** How jobs of alerts are tried: waits double from a second to an hour, 36 attempts take a day; done once in three days. */
export const patience = { attempts: 36, longestWaitMs: 3_600_000, onceForMs: 3 * 86_400_000 };
/** Of several steps of a mail each may take 15 s. */
export const mailTimeoutMs = 120_000;
/** Alerts leave room for other jobs. */
export const mostJobs = 5000;

/** What the channels need. */
interface AlertChannelsPlace {
  /** The block `alerts` of the configuration that serves now. */
  readonly settings: () => AlertSettings;
  readonly sendMail: SendMail;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Counts what becomes of alerts, and hands mail over as the configuration says at that moment. */
export class AlertChannels {
  readonly #place: AlertChannelsPlace;
  readonly count: (labels: Record<'channel' | 'outcome', string>) => Counter;
  readonly failures: RecentFailures;

  constructor(place: AlertChannelsPlace) {
    this.#place = place;
    this.failures = new RecentFailures(place.clock);
    this.count = place.metrics.counter({
      name: 'weir_usage_alerts_total',
      help: 'Alerts by channel (mail, webhook) and outcome: sent, or refused for ever by the other side.',
      labels: ['channel', 'outcome'],
    });
  }

  /** Sends one mail; rejects when it is to be tried again. `about` is for the log, and `what` is what it calls the mail. */
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
 * A server that has just failed is left alone for four times as long as that took, or as long as it asks for, so that many jobs for one that
 * swallows connections do not keep the others from being run.
 */
class RecentFailures {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #until = new RecentMap<number>(100);

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Throws while a server is left alone. */
  check(server: string): void {
    if ((this.#until.get(server) ?? 0) > this.#clock.monotonic())
      throw new Error('The server has failed a moment ago; it is tried again later');
  }

  /** An attempt that began then has failed; the server wants to be left alone for `askedMs`, an hour at the most. */
  note(server: string, started: number, askedMs = 0): void {
    const now = this.#clock.monotonic();
    this.#until.set(server, now + Math.max(4 * (now - started), Math.min(askedMs, patience.longestWaitMs)));
  }
}
