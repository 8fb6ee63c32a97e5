/** What the API answers (plugins/api.py, control/overview.py), and asking it. */

export type Maybe<T> = T | null;

export interface Failure {
  type: string;
  message: string;
}

/** How a new version takes the place of the one that runs (control/update/strategies). */
export interface Strategy {
  name: string;
  summary: string;
  runs_beside: boolean;
}

export interface Me {
  user: string;
  may_edit: boolean;
  may_trigger: Record<string, boolean>;
  missing_dags: string[];
  /** The default one first. */
  strategies: Strategy[];
  update_dag_id: string;
  rollback_dag_id: string;
  restart_dag_id: string;
}

/** What an app needs somebody for, and what helps (control/attention.py). */
export interface Need {
  kind: string;
  severity: string;
  reason: string;
  help: string;
  since: Maybe<string>;
  /** The page's own: restart, rollback, snapshot, verify. */
  button: Maybe<"restart" | "rollback" | "snapshot" | "verify">;
  /** The snapshot or the new version that it is about. */
  about: Maybe<string>;
}

export interface ListedApp {
  conn_id: string;
  app: string;
  state: string;
  error?: Failure;
  /** The most urgent first. */
  needs: Need[];
  /** The run in which a person is to approve its update. */
  approval?: { dag_id: string; run_id: string; task_id: string; since: Maybe<string> };
  deployment?: Maybe<string>;
  epoch?: Maybe<number>;
  rows_in_per_second?: Maybe<number>;
  rows_per_second?: Maybe<number>;
  lag?: Maybe<number>;
  batch_seconds?: Maybe<number>;
  state_rows?: Maybe<number>;
  heartbeat_at?: Maybe<string>;
  updating_to?: Maybe<string>;
  last_update?: Maybe<{ deployment: string; outcome: Maybe<string>; step: string; pause_seconds: Maybe<number> }>;
}

export interface AppList {
  connections: { conn_id: string; root: Maybe<string>; error: Maybe<Failure> }[];
  apps: ListedApp[];
  /** How many there are: `apps` may hold the first ones only. */
  total?: number;
}

/** What an app did, a point each `each` seconds, as columns of equal length. */
export interface Past {
  seconds: number;
  each: number;
  at: number[]; // seconds since the epoch: its beginning
  deployment: string[];
  in: Maybe<number>[];
  out: Maybe<number>[];
  lag: Maybe<number>[];
  batch: Maybe<number>[];
  bytes: Maybe<number>[];
  watermark_age: Maybe<number>[];
  rows: Record<string, Maybe<number>[]>;
}

export interface QueryStatus {
  batch: number;
  last_commit_at: Maybe<string>;
  input_rows_per_second: Maybe<number>;
  processed_rows_per_second: Maybe<number>;
  batch_seconds: Maybe<number>;
  lag: Maybe<number>;
  watermark: Maybe<string>;
  state_rows: Record<string, number>;
  state_bytes: Maybe<number>;
  source_lag: Record<string, number>;
  source_rates: Record<string, number>;
  /** The last batches, oldest first. */
  figures: { rows_out: Maybe<number> }[];
  active: boolean;
  idle: boolean;
  /** What it failed with. Drivers of versions before this do not say. */
  error?: Maybe<string>;
}

export interface Deployment {
  deployment: string;
  state: string;
  current: boolean;
  submitted_at: string;
  started_at: Maybe<string>;
  first_commit_at: Maybe<string>;
  heartbeat_at: Maybe<string>;
  parent: Maybe<string>;
  from_snapshot: Maybe<string>;
  from_app: Maybe<string>;
  digest: string;
  epoch: Maybe<number>;
  batches: Record<string, number>;
  spark_ui: Maybe<string>;
  spark_version: Maybe<string>;
  host: Maybe<string>;
  reason: Maybe<string>;
  error: Maybe<string>;
  driver_log: Maybe<string>;
  update: Maybe<string>;
  application: { file: string; params: Record<string, string>; conf: Record<string, string> };
  /** The drivers it has had, oldest first. */
  runs: { epoch: Maybe<number>; from: string; to: string; state: Maybe<string> }[];
  changes: { at: string; by: string; before: Record<string, string>; after: Record<string, string> }[];
}

export interface Snapshot {
  name: string;
  app: string;
  kind: string;
  created_at?: string;
  deployment?: string;
  size?: number;
  bytes_new?: number;
  queries?: Record<string, { batch: number; committed_at: Maybe<string>; state_rows: Record<string, number> }>;
  verified: Maybe<{ at: string; files: number; problem: Maybe<string> }>;
  error?: Failure;
}

export interface Update {
  old: Maybe<string>;
  new: string;
  runs: string;
  strategy: string;
  started_at: string;
  /** null: it is under way. */
  ended_at?: Maybe<string>;
  step: string;
  steps: { step: string; at: string; seconds: number }[];
  /** Those that are not done. */
  left: string[];
  snapshot: Maybe<string>;
  outcome: Maybe<string>;
  reason: Maybe<string>;
  pause_seconds: Maybe<number>;
  /** The old version's last commit, or the begin of its drain if nothing waited then. */
  paused_at?: Maybe<string>;
  verified: string[];
  /** Empty: an earlier release did not note it. */
  asked_by?: string;
}

/** What an update changed (control/review). */
export interface Review {
  update: Update;
  agreed: { name: string; because: Maybe<string> }[];
  verdicts: Record<string, number>;
  problems: string[];
  compared: Maybe<string>;
  /** null: the files of a version are gone. */
  settings: Maybe<{ part: string; key: string; before: Maybe<string>; after: Maybe<string> }[]>;
  hours: Maybe<{
    before: number;
    after: number;
    figures: { query: string; figure: string; unit: string; before: Maybe<number>; after: Maybe<number> }[];
  }>;
}

export interface CodeDiff {
  old: string;
  new: string;
  files: { name: string; before: Maybe<string>; added: Maybe<number>; removed: Maybe<number>; lines: string[]; note: Maybe<string> }[];
  same: number;
  notes: string[];
}

export interface Stage {
  name: string;
  kind: Maybe<string>;
  operator_id: Maybe<number>;
  state_rows: Maybe<number>;
  verdict: Maybe<string>;
  reason: Maybe<string>;
}

export interface ReportItem {
  thing: string;
  name: string;
  verdict: string;
  rules: string[];
  reason: string;
  needs_agreement: boolean;
  agreed: boolean;
  /** The name under which the author may say that a refused stage means the same. */
  offer: Maybe<string>;
  because: Maybe<string>;
  /** What can be done where it blocks: put it back, carry it, lose it. */
  next_steps: string[];
  /** What was before and what is now, exactly; empty: the reason has it. */
  details: string;
}

export interface Report {
  source: string;
  outcome: string;
  items: ReportItem[];
  /** Of both versions. None: a report of an earlier release, or one that compared no plans. */
  picture?: Maybe<Picture>;
}

/** A source, steps (filters, lookups ...), a stage or the sink (core/compatibility/graph). */
export interface PicturedNode {
  id: string;
  kind: "source" | "steps" | "stage" | "sink";
  name: string;
  /** What it is in each version, line by line; null: it is not in it. */
  old: Maybe<string[]>;
  new: Maybe<string[]>;
  /** A verdict, or what changes; null: nothing was compared. */
  mark: Maybe<string>;
  reason: string;
  agreement: Maybe<"needed" | "agreed">;
  blocks: boolean;
  /** What a driver last reported of it: the page adds it (pictured.ts). */
  figures?: { rows_per_second?: Maybe<number>; lag?: Maybe<number>; state_rows?: Maybe<number>; batch_rows?: Maybe<number> };
}

/** Rows go from one node to another, in one version or in both. */
export interface Edge {
  start: string;
  end: string;
  old: boolean;
  new: boolean;
}

export interface PicturedQuery {
  name: string;
  change: Maybe<string>;
  nodes: PicturedNode[];
  edges: Edge[];
  /** Verdicts on the query as a whole. */
  notes: ReportItem[];
  /** What a plan does not tell. */
  unknown: string[];
  figures?: { rows_per_second: Maybe<number>; processed_per_second: Maybe<number>; lag: Maybe<number>; state_bytes: Maybe<number> };
}

/** compared: of two versions; else all nodes are `new`. */
export interface Picture {
  compared: boolean;
  queries: PicturedQuery[];
  notes: ReportItem[];
}

/** A figure of both versions over some batches; `allowed`: how much of a change, when it is limited. */
export interface ComparedFigure {
  query: string;
  figure: string;
  new: number;
  old: number;
  change: string;
  allowed: Maybe<string>;
  batches: string;
}

/** A query whose rows were compared; `batches`: first and last, null: none were. */
export interface ComparedRows {
  query: string;
  batches: Maybe<string>;
  equal: number;
  changed: number;
  only_old: number;
  only_new: number;
  expected: number;
}

/** A column of a row that differs. */
export interface DifferentValue {
  query: string;
  kind: string;
  column: string;
  new: string;
  old: string;
}

/** What both versions of an update made of the same batches. */
export interface Difference {
  deployment: string;
  outcome: string;
  problems: string[];
  notes: string[];
  figures: ComparedFigure[];
  rows: ComparedRows[];
  samples: DifferentValue[];
}

/** The driver that takes over when the current one dies. `behind`: batches. */
export interface HotStandby {
  deployment: string;
  state: string;
  behind: Maybe<number>;
  took_over: boolean;
}

/** The end of a driver's log, or in `note` where it is. */
export interface DriverLog {
  deployment: string;
  host: Maybe<string>;
  path: Maybe<string>;
  lines: string[];
  note: Maybe<string>;
}

export interface Run {
  dag_id: string;
  run_id: string;
  task_id: string;
  app: string;
  /** None: it only checks. */
  deployment: Maybe<string>;
  state: Maybe<string>;
}

/** A run that was asked for here, or by its form: from the moment it is queued. */
export interface Request {
  dag_id: string;
  run_id: string;
  state: string;
  paused: boolean;
  check_only: boolean;
  report: Maybe<Report>;
  rehearsal: Maybe<{ snapshot: string; outcome: string; problems: string[] }>;
  queued_at: Maybe<string>;
  started_at: Maybe<string>;
  ended_at: Maybe<string>;
  tasks: { task_id: string; state: string; started_at: Maybe<string>; ended_at: Maybe<string> }[];
}

export interface Rollback {
  number: number;
  left: string;
  back_to: string;
  started_at: string;
  ended_at: Maybe<string>;
  asked_by: string;
  reason: Maybe<string>;
  epoch: Maybe<number>;
}

export interface AppDocument {
  conn_id: string;
  app: string;
  state: string;
  needs: Need[];
  current: Maybe<{ deployment: string; epoch: number; promoted: boolean }>;
  status: Maybe<{ heartbeat_at: string; queries: Record<string, QueryStatus>; error: Maybe<string> }>;
  /** null: it is to have none. */
  hot_standby: Maybe<HotStandby>;
  deployments: Deployment[];
  stages: Stage[];
  report: Maybe<Report & { deployment: string }>;
  /** Of what runs. null: it has no plan yet. */
  picture: Maybe<Picture>;
  /** Of the last update, when its new version ran along. */
  difference: Maybe<Difference>;
  snapshots: Snapshot[];
  updates: Update[];
  rollbacks: Rollback[];
  /** Where a rollback goes: the version before; of one that failed also why, and the last one that did not. */
  way_back: Maybe<{ to: string; failure: Maybe<string>; healthy: Maybe<string> }>;
  /** How many older ones are not in this document, by what they are. */
  left_out?: Record<string, number>;
  events: { at: string; epoch: number; event: string; [detail: string]: unknown }[];
  runs: Run[];
  requests: Request[];
}

/** What is said of an update that nobody works on. */
export const LEFT = ["update-interrupted", "update-waits"];

/** The version that such an update was to bring in, or that a rollback leaves. */
export const interrupted = (app: AppDocument): Maybe<string> => app.needs.find((need) => LEFT.includes(need.kind))?.about ?? null;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Airflow's own address, e.g. `https://host/airflow/`: this page lies in a folder of it. */
export const airflow = new URL("..", new URL(".", location.href)).href;

/** Ask the page's API (a relative path) or Airflow's (its full address). */
export async function ask<T>(path: string, method = "GET", body?: unknown): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (method !== "GET") headers["Content-Type"] = "application/json";
  const request: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) request.body = JSON.stringify(body);
  let answer: Response;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new ApiError(0, "Airflow's API server does not answer");
  }
  const document = await answer.json().catch(() => null);
  if (answer.ok) return document as T;
  if (answer.status === 401) throw new ApiError(401, "your session has ended: load Airflow's page again to log in");
  const told = document?.error?.message ?? document?.detail;
  throw new ApiError(answer.status, typeof told === "string" ? told : `${answer.status} ${answer.statusText}`);
}

export const appPath = (conn: string, app: string, ...rest: string[]): string =>
  ["api", "apps", conn, app, ...rest].map(encodeURIComponent).join("/");

const dagPath = (dag: string): string => `${airflow}api/v2/dags/${encodeURIComponent(dag)}`;

/** Have a run of a DAG start. One that is paused is unpaused first, unless that would start runs by a schedule, too. */
export async function trigger(dag: string, conf: unknown): Promise<{ dag_run_id: string }> {
  const found = await ask<{ is_paused: boolean; timetable_summary: Maybe<string> }>(dagPath(dag)).catch((problem) => {
    if (problem instanceof ApiError && problem.status === 404) {
      throw new ApiError(404, `Airflow has no DAG ${dag}: streamupdate init-dags puts its file into the DAGs folder`);
    }
    throw problem;
  });
  if (found.is_paused) {
    if (found.timetable_summary) {
      throw new ApiError(409, `DAG ${dag} is paused and has a schedule (${found.timetable_summary}): unpause it in Airflow, then try again`);
    }
    await ask(`${dagPath(dag)}?update_mask=is_paused`, "PATCH", { is_paused: false }).catch((problem) => {
      if (problem instanceof ApiError && problem.status === 403) {
        throw new ApiError(403, `DAG ${dag} is paused, so that a run would wait, and you may not unpause it: ask someone who may edit it`);
      }
      throw problem;
    });
  }
  return ask(`${dagPath(dag)}/dagRuns`, "POST", { logical_date: null, conf });
}
