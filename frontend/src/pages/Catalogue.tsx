import { Alert } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box, Rocket } from "lucide-react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image, imagesQuery } from "@/api/catalog";
import { templatesQuery } from "@/api/queries";
import { CommandLine } from "@/components/CommandLine";
import { EmptyState } from "@/components/EmptyState";
import { PageTitle } from "@/components/PageTitle";
import { QueryCard } from "@/components/QueryCard";
import { RetireButton } from "@/components/RetireButton";
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
        {(templates) => (
          <div className={table.wrap}>
            <table className={table.table}>
              <thead>
                <tr>
                  <th scope="col">{t("Template")}</th>
                  <th scope="col">{t("Version")}</th>
                  <th scope="col">{t("Description")}</th>
                </tr>
              </thead>
              <tbody>
                {templates.map((each) => (
                  <tr key={each.name}>
                    <td>
                      <Link to="/" search={{ launch: each.name }} className={classes.anchor}>
                        {each.title}
                      </Link>
                    </td>
                    <td data-label={t("Version")}>{each.version}</td>
                    <td data-label={t("Description")} className={table.dim}>
                      {each.description}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </QueryCard>
    </section>
  );
}

function Images() {
  const { t } = useTranslation();
  const query = useQuery(imagesQuery);
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
          <div className={table.wrap}>
            <table className={table.table}>
              <thead>
                <tr>
                  <th scope="col">{t("Image")}</th>
                  <th scope="col">{t("State")}</th>
                  <th scope="col">{t("Visible to")}</th>
                  <th scope="col">{t("Verified")}</th>
                  <th scope="col">
                    <span className="visually-hidden">{t("Actions")}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {images.map((image) => (
                  <ImageRow key={`${image.name} ${image.version}`} image={image} />
                ))}
              </tbody>
            </table>
          </div>
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

function ImageRow({ image }: { image: Image }) {
  const { t } = useTranslation();
  const { name, version, state, projects, verified_at, damage } = image;
  return (
    <tr data-testid="catalogue-image">
      <td>
        <Link to="/images/$name/$version" params={{ name, version }} className={classes.anchor}>
          {name}:{version}
        </Link>
      </td>
      <td data-label={t("State")}>
        {damage === null ? (
          <ImageState state={state} />
        ) : (
          <ToneBadge tone="bad">{t("damaged")}</ToneBadge>
        )}
      </td>
      <td data-label={t("Visible to")}>{projects.length === 0 ? t("all users") : projects.join(", ")}</td>
      <td data-label={t("Verified")}>{verified_at === null ? <span className={table.dim}>{t("never")}</span> : <RelativeTime at={verified_at} />}</td>
      <td className={table.num}>
        <RetireButton
          title={`${name}:${version}`}
          retired={state === "retired"}
          inRow
          queryKey={catalogKeys.images}
          change={(retired) => changeImage(image, { state: retired ? "retired" : "offered" })}
        >
          {t("New jobs can no longer use this image. Running jobs continue. Its files are kept until an administrator removes them.")}
        </RetireButton>
      </td>
    </tr>
  );
}
