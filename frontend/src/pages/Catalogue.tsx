import { Alert } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box, Rocket } from "lucide-react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image, imagesQuery } from "@/api/catalog";
import { templatesQuery } from "@/api/queries";
import type { Template } from "@/api/types";
import { CommandLine } from "@/components/CommandLine";
import { DataTable } from "@/components/DataTable";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { RetireButton } from "@/components/RetireButton";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { msg } from "@/i18n/msg";
import { known } from "@/lib/known";
import type { Tone } from "@/lib/states";
import table from "@/components/table.module.css";
import classes from "@/components/Admin.module.css";

const STATES: Record<Image["state"], { label: string; tone: Tone }> = {
  offered: { label: msg("Available"), tone: "good" },
  retired: { label: msg("Retired"), tone: "neutral" },
};

/** Job templates with the errors in their files, and images to retire. */
export function CataloguePage() {
  const { t } = useTranslation();
  return (
    <>
      <PageTitle title={t("Templates and images")} />
      <Templates />
      <Images />
    </>
  );
}

function Templates() {
  const { t } = useTranslation();
  const query = useQuery(templatesQuery);
  const columns: Column<Template>[] = [
    {
      header: t("Template"),
      cell: ({ name, title }) => (
        <Link to="/" search={{ launch: name }} className={classes.anchor}>
          {title}
        </Link>
      ),
    },
    { header: t("Version"), cell: ({ version }) => version },
    { header: t("Description"), dim: true, cell: ({ description }) => description },
  ];
  return (
    <section aria-labelledby="templates">
      <h2 className={classes.heading} id="templates">
        {t("Job templates")}
      </h2>
      {query.data?.problems.map((problem) => (
        <Alert key={`${problem.path}:${problem.line ?? ""}`} color="red" mb="sm" title={problem.line === null ? problem.path : `${problem.path}:${problem.line}`}>
          {problem.reason}
        </Alert>
      ))}
      <QueryCard
        query={query}
        items={query.data?.items}
        rows={3}
        empty={
          <EmptyState icon={Rocket} title={t("No templates")}>
            {t("Templates are YAML files in a template folder of the platform.")}
          </EmptyState>
        }
      >
        {(templates) => <DataTable columns={columns} rows={templates} rowKey={({ name }) => name} />}
      </QueryCard>
    </section>
  );
}

function Images() {
  const { t } = useTranslation();
  const query = useQuery(imagesQuery);
  const columns: Column<Image>[] = [
    {
      header: t("Image"),
      cell: ({ name, version }) => (
        <Link to="/images/$name/$version" params={{ name, version }} className={classes.anchor}>
          {name}:{version}
        </Link>
      ),
    },
    { header: t("State"), cell: ({ state, damage }) => (damage === null ? <ImageState state={state} /> : <ToneBadge tone="bad">{t("damaged")}</ToneBadge>) },
    { header: t("Visible to"), cell: ({ projects }) => (projects.length === 0 ? t("all users") : projects.join(", ")) },
    { header: t("Verified"), cell: ({ verified_at }) => (verified_at === null ? <span className={table.dim}>{t("never")}</span> : <RelativeTime at={verified_at} />) },
  ];
  return (
    <section className={classes.section} aria-labelledby="images">
      <h2 className={classes.heading} id="images">
        {t("Images")}
      </h2>
      <QueryCard
        query={query}
        items={query.data?.items}
        rows={3}
        empty={
          <EmptyState icon={Box} title={t("No images yet")} action={<CommandLine command="aitne admin image build jupyter --yes" />}>
            {t("Build an image from a recipe:")}
          </EmptyState>
        }
      >
        {(images) => (
          <DataTable
            columns={columns}
            rows={images}
            rowKey={({ name, version }) => `${name} ${version}`}
            rowTestId="catalogue-image"
            actions={(image) => (
              <RetireButton
                title={`${image.name}:${image.version}`}
                retired={image.state === "retired"}
                inRow
                queryKey={catalogKeys.images}
                change={(retired) => changeImage(image, { state: retired ? "retired" : "offered" })}
              >
                {t("New jobs can no longer use this image. Running jobs continue. Its files are kept until an administrator removes them.")}
              </RetireButton>
            )}
          />
        )}
      </QueryCard>
    </section>
  );
}

function ImageState({ state }: { state: Image["state"] }) {
  const { t } = useTranslation();
  const { tone, label } = known(STATES, state, { tone: "neutral", label: state });
  return <ToneBadge tone={tone}>{t(label)}</ToneBadge>;
}
