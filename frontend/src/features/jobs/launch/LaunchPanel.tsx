import { Alert, Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { FileWarning, LayoutTemplate } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { templatePreferencesQuery, useSaveTemplates } from "@/api/preferences";
import { templatesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { notifyProblem } from "@/components/notify";
import { PageError } from "@/components/PageError";
import { TemplateCard } from "./TemplateCard";
import { findPreset, presetsOf, sortTemplates } from "./templates";
import classes from "@/components/Dashboard.module.css";

const fetchDrawer = () => import("./LaunchDrawer");
const LaunchDrawer = lazy(async () => ({ default: (await fetchDrawer()).LaunchDrawer }));

/** Loads the form before it is opened; a click repeats a failed fetch. */
const prepareDrawer = () => void fetchDrawer().catch(() => undefined);

/** Template cards. The selected template and preset are in the URL, so that Back closes its form. */
export function LaunchPanel() {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery);
  const preferences = useQuery(templatePreferencesQuery);
  const save = useSaveTemplates((error) => notifyProblem(t("Could not save the presets"), error));
  const { launch, preset } = useSearch({ from: "/shell/" });
  const navigate = useNavigate({ from: "/" });
  const selected = templates.data?.items.find((template) => template.name === launch) ?? null;
  // The form is loaded on demand and stays mounted for its closing transition.
  const [formNeeded, setFormNeeded] = useState(false);
  if (selected !== null && !formNeeded) setFormNeeded(true);
  const close = () => void navigate({ search: {} });

  // The order follows from the pins, so cards are shown once these are loaded or have failed.
  if (templates.isPending || preferences.isPending) {
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
        <PageError compact error={templates.error} onRetry={() => templates.refetch()} />
      </div>
    );
  }
  const { items, problems } = templates.data;
  const { pinned, presets } = preferences.data ?? { pinned: [], presets: [] };
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
        {sortTemplates(items, pinned).map((template) => (
          <TemplateCard
            key={template.name}
            template={template}
            pinned={pinned.includes(template.name)}
            presets={presetsOf(presets, template.name)}
            onOpen={(chosen) => void navigate({ search: { launch: template.name, ...(chosen && { preset: chosen.name }) } })}
            onPrepare={prepareDrawer}
            onChange={(change) => save.mutate(change)}
          />
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
          <LaunchDrawer template={selected} preset={selected ? findPreset(presets, selected.name, preset) : undefined} onClose={close} />
        </Suspense>
      )}
    </>
  );
}
