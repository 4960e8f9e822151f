import { Alert, Skeleton, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { FileWarning, LayoutTemplate } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { templatesQuery } from "@/api/queries";
import type { Template } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { TemplateIcon } from "@/components/TemplateIcon";
import classes from "@/pages/Dashboard.module.css";

const fetchDrawer = () => import("@/components/LaunchDrawer");
const LaunchDrawer = lazy(async () => ({ default: (await fetchDrawer()).LaunchDrawer }));

/** Template cards; the chosen one is in the address, so that Back closes its form. */
export function LaunchPanel() {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery);
  const { launch } = useSearch({ from: "/shell/" });
  const navigate = useNavigate({ from: "/" });
  const chosen = templates.data?.items.find((template) => template.name === launch) ?? null;
  // The form is no part of the first load; once there it stays, so that it can slide away.
  const [formNeeded, setFormNeeded] = useState(false);
  if (chosen !== null && !formNeeded) setFormNeeded(true);
  const choose = (name: string | null) => void navigate({ search: name === null ? {} : { launch: name } });

  if (templates.isPending) {
    return (
      <div className={classes.templates} aria-busy="true">
        <span className="visually-hidden">{t("Loading")}</span>
        {[0, 1, 2].map((index) => (
          <Skeleton key={index} h={104} radius={12} />
        ))}
      </div>
    );
  }
  if (!templates.data) {
    return (
      <div className="card">
        <PageError compact error={templates.error} onRetry={() => void templates.refetch()} />
      </div>
    );
  }
  const { items, problems } = templates.data;
  return (
    <>
      {items.length === 0 && (
        <div className={classes.well}>
          <EmptyState icon={LayoutTemplate} title={t("There are no templates")}>
            {t("An administrator can add one: a YAML file in a templates folder is one card here.")}
          </EmptyState>
        </div>
      )}
      <div className={classes.templates}>
        {items.map((template) => (
          <TemplateCard key={template.name} template={template} onChoose={() => choose(template.name)} />
        ))}
      </div>
      {problems.map((problem) => (
        <Alert
          key={`${problem.path}:${problem.line ?? 0}`}
          mt="sm"
          color="orange"
          icon={<FileWarning size={18} />}
          title={t("A template was refused")}
        >
          {problem.line === null ? problem.path : t("{{path}}, line {{line}}", { path: problem.path, line: problem.line })}: {problem.reason}
        </Alert>
      ))}
      {formNeeded && (
        <Suspense>
          <LaunchDrawer template={chosen} onClose={() => choose(null)} />
        </Suspense>
      )}
    </>
  );
}

function TemplateCard({ template, onChoose }: { template: Template; onChoose: () => void }) {
  // While the hand is on its way; what fails here is asked for again when the card is pressed.
  const prepare = () => void fetchDrawer().catch(() => undefined);
  return (
    <UnstyledButton className={classes.template} onClick={onChoose} onPointerEnter={prepare} onFocus={prepare} data-testid={`template-${template.name}`}>
      <TemplateIcon name={template.icon} session={template.type === "session"} />
      <span>
        <span className={classes.templateTitle}>{template.title}</span>
        <span className={classes.templateText}>{template.description}</span>
      </span>
    </UnstyledButton>
  );
}
