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

/** Template cards. The selected template is in the URL, so that Back closes its form. */
export function LaunchPanel() {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery);
  const { launch } = useSearch({ from: "/shell/" });
  const navigate = useNavigate({ from: "/" });
  const selected = templates.data?.items.find((template) => template.name === launch) ?? null;
  // The form is loaded on demand and stays mounted for its closing transition.
  const [formNeeded, setFormNeeded] = useState(false);
  if (selected !== null && !formNeeded) setFormNeeded(true);
  const select = (name: string | null) => void navigate({ search: name === null ? {} : { launch: name } });

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
          <EmptyState icon={LayoutTemplate} title={t("No templates")}>
            {t("Administrators add templates as YAML files in a template folder.")}
          </EmptyState>
        </div>
      )}
      <div className={classes.templates}>
        {items.map((template) => (
          <TemplateCard key={template.name} template={template} onSelect={() => select(template.name)} />
        ))}
      </div>
      {problems.map((problem) => (
        <Alert
          key={`${problem.path}:${problem.line ?? 0}`}
          mt="sm"
          color="orange"
          icon={<FileWarning size={18} />}
          title={t("Invalid template")}
        >
          {problem.line === null ? problem.path : t("{{path}}, line {{line}}", { path: problem.path, line: problem.line })}: {problem.reason}
        </Alert>
      ))}
      {formNeeded && (
        <Suspense>
          <LaunchDrawer template={selected} onClose={() => select(null)} />
        </Suspense>
      )}
    </>
  );
}

function TemplateCard({ template, onSelect }: { template: Template; onSelect: () => void }) {
  // Prefetches on hover and focus; a click repeats a failed fetch.
  const prepare = () => void fetchDrawer().catch(() => undefined);
  return (
    <UnstyledButton className={classes.template} onClick={onSelect} onPointerEnter={prepare} onFocus={prepare} data-testid={`template-${template.name}`}>
      <TemplateIcon name={template.icon} session={template.type === "session"} />
      <span>
        <span className={classes.templateTitle}>{template.title}</span>
        <span className={classes.templateText}>{template.description}</span>
      </span>
    </UnstyledButton>
  );
}
