/** What an update, or a run, works on now. */

import type { Maybe, Request, Update } from "./api";

interface Step {
  /** What is being done, in words. */
  doing: string;
  since: Maybe<string>;
}

type Task = Request["tasks"][number];

// By the name of a step, or of another task of a run (core/registry/update.py: Step).
const DOING: Record<string, string> = {
  plan: "planning",
  check: "checking",
  rehearse: "rehearsing",
  approve: "waiting for an approval",
  prepare: "getting the new version ready",
  snapshot_and_cancel: "taking over from the old version",
  submit_from_snapshot: "starting the new version",
  verify: "watching the new version",
  promote: "promoting",
  rollback: "rolling back",
  restart: "starting the driver",
  outcome: "ending",
};
const OVER = ["success", "failed", "skipped", "upstream_failed", "removed"];
const WAITING: Record<string, string> = {
  up_for_retry: ", tried again soon",
  up_for_reschedule: ", checked again soon",
  queued: ", queued",
  scheduled: ", queued",
};

/** Without its group's name. */
export const taskName = (task: Task): string => task.task_id.replace(/^.*\./, "");

/** The task that a run is at. */
export function runningTask(request: Request | undefined): Task | undefined {
  return request?.tasks.find((task) => !OVER.includes(task.state));
}

export function taskStep(task: Task): Step {
  const name = taskName(task);
  return { doing: `${DOING[name] ?? name}${WAITING[task.state] ?? ""}`, since: task.started_at };
}

/** The step an update is at: the running task's, if a run works on it, else what follows the step it has completed. */
export function updateStep(update: Update, request: Request | undefined): Step {
  const task = runningTask(request);
  if (task) return taskStep(task);
  const since = update.steps.at(-1)?.at ?? update.started_at;
  return { doing: DOING[update.left[0] ?? ""] ?? "ending", since };
}
