import type { EncodedCommand, RedisClient, RedisReply } from './encoded-command.ts';

/** Options of one call. */
export interface RedisCallOptions {
  /** Timeout of the call in milliseconds. Default: that of the connection. */
  readonly budgetMs?: number;
  /** True to send it also to a slow server: no caller waits for the answer. Default false. */
  readonly unhurried?: boolean;
}

/** Same for a call that is not encoded here. */
export interface KeyedCallOptions extends RedisCallOptions {
  /** One of the keys of its commands, all of which are in one slot. Default: none, any server may answer. */
  readonly key?: string;
}

/** Handling of an answer, or of its absence. */
export interface ReplyHandling<Result> extends RedisCallOptions {
  read(reply: RedisReply): Result;
  /** Called without an answer in time. */
  without(error: Error): Result | Promise<Result>;
  /** Gets the answer to a call that had timed out. */
  readonly late?: (reply: RedisReply) => void;
}

/** The connection to one server, or to the servers of a cluster, shared by all its users. */
export interface RedisConnection {
  /** False while every call would fail at once: no server is connected and answers in time. */
  readonly available: boolean;
  /**
   * A number that rises with each lost connection; undefined without any. Commands in flight at an earlier number may or
   * may not have run.
   */
  readonly session: number | undefined;
  /** Default timeout of a call in milliseconds. */
  readonly budgetMs: number;
  /** False while a call for this key would fail at once: the server that keeps it is away. */
  isAvailableFor(key: string): boolean;
  /** Sends or rejects at once; rejects without an answer in time. A command that may have run is never repeated. */
  call<Reply>(send: (client: RedisClient) => Promise<Reply>, options?: KeyedCallOptions): Promise<Reply>;
  /**
   * Same for an encoded command, the form of the commands of every request. Resolves with the handling's result for the
   * answer or its absence; rejects only when the handling does.
   */
  send<Result>(command: EncodedCommand, handling: ReplyHandling<Result>): Promise<Result>;
  /** Resolves when every server answers in time; rejects with the reason otherwise. */
  ping(): Promise<void>;
  /** Ends the connection for good. */
  close(): Promise<void>;
}
