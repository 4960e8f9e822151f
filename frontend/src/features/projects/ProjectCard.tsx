import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Project } from "@/api/projects";
import type { Me } from "@/api/types";
import { ToneBadge } from "@/components/ToneBadge";
import { useSlowNow } from "@/hooks/use-now";
import { BalanceView } from "./BalanceView";
import { dayOf, endsSoon, projectState, rightsIn, roleLabel } from "./projects";
import classes from "./Projects.module.css";

/** A project in a list; `balance`: whether its balance is fetched and shown. */
export function ProjectCard({ project, me, balance }: { project: Project; me: Me; balance: boolean }) {
  const { t } = useTranslation();
  const now = useSlowNow();
  const state = projectState(project.state);
  const { role } = rightsIn(project, me);
  const soon = endsSoon(project, now);
  return (
    <li className={`card ${classes.cardItem ?? ""}`} data-testid="project-card">
      <div className={classes.cardHead}>
        <div style={{ minWidth: 0 }}>
          <Link to="/projects/$name" params={{ name: project.name }} className={classes.cardTitle}>
            {project.title || project.name}
          </Link>
          {project.title !== "" && (
            <Text size="sm" c="dimmed" className="mono">
              {project.name}
            </Text>
          )}
        </div>
        <ToneBadge tone={state.tone} dot>
          {state.label}
        </ToneBadge>
      </div>
      {project.state === "active" && balance ? (
        <BalanceView name={project.name} compact />
      ) : (
        <Text className={classes.about}>{project.note ?? project.description}</Text>
      )}
      <div className={classes.cardFoot}>
        <span>{role === null ? t("Not a member") : roleLabel(role)}</span>
        <span>{t("{{count}} members", { count: project.members.length })}</span>
        {project.expires_at !== null && (
          <span className={soon ? classes.soon : undefined}>
            {project.state === "expired"
              ? t("ended {{day}}", { day: dayOf(project.expires_at) })
              : t("until {{day}}", { day: dayOf(project.expires_at) })}
          </span>
        )}
      </div>
    </li>
  );
}
