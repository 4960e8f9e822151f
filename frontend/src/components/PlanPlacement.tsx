import { useTranslation } from "react-i18next";
import type { PlacementPlan } from "@/api/topology";
import { ServerText } from "@/components/ServerText";
import { alternativeText, costText, leavesText, someOf, waitText } from "@/lib/planned";
import { formatNumber } from "@/lib/units";
import classes from "./PlanView.module.css";

/** On which nodes a job would run, in which order, what that costs, and what else there is. */
export function PlanPlacement({ placement }: { placement: PlacementPlan }) {
  const { t } = useTranslation();
  const { nodes, leaves, order, score, reason, alternatives, changes } = placement;
  const rows: [string, string | null][] = [
    [t("Nodes"), nodes.length > 0 ? someOf(nodes) : null],
    [t("Switches"), [leavesText(leaves), waitText(placement)].filter(Boolean).join("; ") || null],
    [t("Order"), order.length > 0 && order.join() !== nodes.join() ? someOf(order) : null],
    [t("Cost"), [costText(placement), score === null ? null : t("score {{score}}", { score: formatNumber(score) })].filter(Boolean).join("; ") || null],
  ];
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling area needs the keyboard
    <div className={classes.placement} tabIndex={0} role="group" aria-label={t("Placement")} data-testid="plan-placement">
      <dl>
        {rows.map(([name, text]) => text !== null && <Row key={name} name={name} text={text} />)}
        {alternatives.length > 0 && <Row name={t("Alternatives")} text={alternatives.map(alternativeText).join("; ")} />}
      </dl>
      {[reason, ...changes].map((text) => (
        <p key={text}>
          <ServerText>{text}</ServerText>
        </p>
      ))}
    </div>
  );
}

function Row({ name, text }: { name: string; text: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{text}</dd>
    </>
  );
}
