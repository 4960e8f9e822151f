import { Alert, Skeleton, UnstyledButton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { FileWarning, LayoutTemplate } from "lucide-react";
import { lazy, Suspense } from "react";
import { templatesQuery } from "@/api/queries";
import type { Template } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { TemplateIcon } from "@/components/TemplateIcon";
import classes from "@/pages/Dashboard.module.css";

const LaunchDrawer = lazy(async () => ({ default: (await import("@/components/LaunchDrawer")).LaunchDrawer }));

/** Template cards; the chosen one is in the address, so that Back closes its form. */
export function LaunchPanel() {
  const templates = useQuery(templatesQuery);
  const { launch } = useSearch({ from: "/shell/" });
  const navigate = useNavigate({ from: "/" });
  const choose = (name: string | null) => void navigate({ search: name === null ? {} : { launch: name } });

  if (templates.isPending) {
    return (
      <div className={classes.templates} aria-busy="true">
        <span className="visually-hidden">Loading</span>
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
          <EmptyState icon={LayoutTemplate} title="There are no templates">
            An administrator can add one: a YAML file in a templates folder is one card here.
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
          title="A template was refused"
        >
          {problem.path}
          {problem.line !== null && `, line ${problem.line}`}: {problem.reason}
        </Alert>
      ))}
      <Suspense>
        <LaunchDrawer template={items.find((template) => template.name === launch) ?? null} onClose={() => choose(null)} />
      </Suspense>
    </>
  );
}

function TemplateCard({ template, onChoose }: { template: Template; onChoose: () => void }) {
  return (
    <UnstyledButton className={classes.template} onClick={onChoose} data-testid={`template-${template.name}`}>
      <TemplateIcon name={template.icon} session={template.type === "session"} />
      <span>
        <span className={classes.templateTitle}>{template.title}</span>
        <span className={classes.templateText}>{template.description}</span>
      </span>
    </UnstyledButton>
  );
}
