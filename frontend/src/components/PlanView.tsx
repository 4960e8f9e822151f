import { Anchor, Collapse, Skeleton } from "@mantine/core";
import i18next from "i18next";
import { CircleCheck, CircleX, Hourglass, Info, ShieldCheck, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { messageOf } from "@/api/problem";
import type { Plan } from "@/api/types";
import { CodeText } from "@/components/CodeText";
import { PlanPlacement } from "@/components/PlanPlacement";
import { ServerText } from "@/components/ServerText";
import { translateServerText } from "@/i18n/server";
import { describeRanks, describeResources, describeTimeLimit } from "@/lib/describe";
import { BARE, runtimeTitle } from "@/lib/runtimes";
import { formatRelative } from "@/lib/time";
import classes from "./PlanView.module.css";

interface Props {
  plan: Plan | undefined;
  error: unknown;
  /** Shown instead of a plan: what is missing for one. */
  hint: string | null;
  /** Whether the plan matches the current form. */
  fresh: boolean;
}

/** The result of a launch, updated while the form changes. */
export function PlanView({ plan, error, hint, fresh }: Props) {
  const { t } = useTranslation();
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
        <span className={classes.planText}>{t("Plan failed: {{error}}", { error: messageOf(error) })}</span>
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
          <strong className={tone}>
            <CodeText>{text}</CodeText>
          </strong>
          <span className={classes.planSub}>
            {partsOf(plan).join(" · ")} ·{" "}
            <Anchor
              component="button"
              type="button"
              size="xs"
              aria-expanded={open}
              onClick={() => setOpen((old) => !old)}
              data-testid="launch-script-toggle"
            >
              {open ? t("hide script") : t("show script")}
            </Anchor>
          </span>
          {plan.placement !== null && <PlanPlacement placement={plan.placement} />}
          <Remarks plan={plan} />
        </span>
      </div>
      <Collapse expanded={open}>
        {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard */}
        <pre className={classes.script} tabIndex={0} aria-label={t("Batch script")}>
          {plan.script}
        </pre>
      </Collapse>
    </>
  );
}

/** Warnings of the plan, then how the requested limits are enforced. */
function Remarks({ plan }: { plan: Plan }) {
  const { t } = useTranslation();
  if (plan.warnings.length + plan.enforcement.length === 0) return null;
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <ul className={classes.details} tabIndex={0} aria-label={t("Plan details")}>
      {plan.warnings.map((text) => (
        <li key={text} className={classes.warning} data-testid="plan-warning">
          <TriangleAlert size={14} aria-hidden />
          <span>
            <ServerText>{text}</ServerText>
          </span>
        </li>
      ))}
      {plan.enforcement.map((text) => (
        <li key={text} className={classes.limit} data-testid="plan-limit">
          <ShieldCheck size={14} aria-hidden />
          <span>
            <ServerText>{text}</ServerText>
          </span>
        </li>
      ))}
    </ul>
  );
}

function partsOf(plan: Plan): string[] {
  const { resources, project } = plan.spec;
  const parts = [describeResources(resources), describeRanks(plan.spec), i18next.t("max. {{time}}", { time: describeTimeLimit(plan.spec) })];
  return [...parts, i18next.t("project {{name}}", { name: project }), imageOf(plan)].filter(Boolean);
}

function imageOf({ spec }: Plan): string {
  if (spec.image === BARE) return i18next.t("no container");
  return i18next.t("in {{image}} ({{runtime}})", { image: spec.image, runtime: runtimeTitle(spec.runtime) });
}

function verdict(plan: Plan) {
  if (!plan.fits) {
    return { Icon: CircleX, tone: classes.never, text: translateServerText(plan.pending_reason ?? "").text || i18next.t("This cluster cannot run the job.") };
  }
  if (plan.starts_now) return { Icon: CircleCheck, tone: classes.now, text: i18next.t("Starts now") };
  const why = translateServerText(plan.pending_reason ?? "").text || i18next.t("Waiting for resources.");
  if (plan.expected_start_at === null) return { Icon: Hourglass, tone: classes.wait, text: why };
  const time = formatRelative(new Date(plan.expected_start_at), new Date());
  return { Icon: Hourglass, tone: classes.wait, text: i18next.t("{{why}} Estimated start: {{time}}.", { why, time }) };
}
