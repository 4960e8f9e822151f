import { Anchor, Collapse, Skeleton } from "@mantine/core";
import { CircleCheck, CircleX, Hourglass, Info, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { messageOf } from "@/api/problem";
import type { Plan } from "@/api/types";
import { durationWords, formatRelative } from "@/lib/time";
import { describeResources } from "@/lib/describe";
import classes from "./LaunchDrawer.module.css";

interface Props {
  plan: Plan | undefined;
  error: unknown;
  /** Said instead of a plan: what is missing for one. */
  hint: string | null;
  /** Whether the plan is of what the form shows now. */
  fresh: boolean;
}

/** What would happen on Launch, renewed while somebody types. */
export function PlanView({ plan, error, hint, fresh }: Props) {
  const [open, setOpen] = useState(false);
  if (hint !== null) {
    return (
      <div className={classes.plan} role="status">
        <Info size={18} aria-hidden />
        <span className={classes.planText}>{hint}</span>
      </div>
    );
  }
  if (error !== null) {
    return (
      <div className={`${classes.plan ?? ""} ${classes.wait ?? ""}`} role="status">
        <TriangleAlert size={18} aria-hidden />
        <span className={classes.planText}>No plan: {messageOf(error)}</span>
      </div>
    );
  }
  if (plan === undefined) {
    return (
      <div className={classes.plan} aria-busy="true">
        <Skeleton circle h={18} w={18} />
        <span className={classes.planText}>
          <Skeleton h={14} w="50%" mb={8} mt={3} />
          <Skeleton h={10} w="70%" />
        </span>
      </div>
    );
  }
  const { Icon, tone, text } = verdict(plan);
  return (
    <>
      <div
        className={classes.plan}
        role="status"
        style={{ opacity: fresh ? 1 : 0.55, transition: "opacity 150ms" }}
        data-testid="launch-plan"
      >
        <Icon size={18} aria-hidden className={tone} />
        <span className={classes.planText}>
          <strong className={tone}>{text}</strong>
          <span className={classes.planSub}>
            {describeResources(plan.spec.resources)} · at most {durationWords(plan.spec.max_duration_s)} · project{" "}
            {plan.spec.project} ·{" "}
            <Anchor
              component="button"
              type="button"
              size="xs"
              aria-expanded={open}
              onClick={() => setOpen((old) => !old)}
              data-testid="launch-script-toggle"
            >
              {open ? "hide the script" : "show the exact script"}
            </Anchor>
          </span>
          {plan.warnings.map((warning) => (
            <span key={warning} className={`${classes.planSub ?? ""} ${classes.wait ?? ""}`}>
              {warning}
            </span>
          ))}
        </span>
      </div>
      <Collapse expanded={open}>
        {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
        <pre className={classes.script} tabIndex={0} aria-label="The exact script">
          {plan.script}
        </pre>
      </Collapse>
    </>
  );
}

function verdict(plan: Plan) {
  if (!plan.fits) {
    return { Icon: CircleX, tone: classes.never, text: plan.waits_for ?? "This cluster can never run it." };
  }
  if (plan.starts_now) return { Icon: CircleCheck, tone: classes.now, text: "Starts now" };
  const why = plan.waits_for ?? "It waits for free resources.";
  const when = plan.expected_start_at && ` The scheduler expects to begin it ${formatRelative(new Date(plan.expected_start_at), new Date())}.`;
  return { Icon: Hourglass, tone: classes.wait, text: `${why}${when ?? ""}` };
}
