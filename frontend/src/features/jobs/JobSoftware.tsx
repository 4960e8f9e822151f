import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import i18next from "i18next";
import { useTranslation } from "react-i18next";
import type { Job } from "@/api/types";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { datasetReference, splitReference } from "@/features/datasets/datasets";
import { environmentLines, shortDigest } from "@/features/images/images";
import { BARE, runtimeTitle } from "@/lib/runtimes";

/** The image, environment and datasets of a job, with the versions resolved at its creation. */
export function JobSoftware({ job }: { job: Job }) {
  const { t } = useTranslation();
  const environment = environmentLines(job.environment);
  return (
    <>
      <DetailRow name={t("Image")}>
        <ImageLink image={job.image} inCatalogue={job.image_digest !== null} />
      </DetailRow>
      {job.image_digest !== null && (
        <DetailRow name={t("Digest")}>
          <Identifier value={job.image_digest} short={shortDigest(job.image_digest)} what={t("the image digest")} />
        </DetailRow>
      )}
      {job.image !== BARE && (
        <DetailRow name={t("Runtime")}>
          {[runtimeTitle(job.runtime), job.container.writable ? i18next.t("writable container file system") : "", job.container.network ? "" : i18next.t("no network")]
            .filter(Boolean)
            .join(", ")}
        </DetailRow>
      )}
      {environment.map(({ name, text }) => (
        <DetailRow key={name} name={name}>
          <span className="mono" style={{ fontSize: 12.5, whiteSpace: "pre-wrap" }}>
            {text}
          </span>
        </DetailRow>
      ))}
      {job.datasets.length > 0 && (
        <DetailRow name={t("Datasets")}>
          <span>
            {job.datasets.map((dataset) => (
              <Anchor
                key={dataset.name}
                display="block"
                fz="inherit"
                renderRoot={(props) => (
                  <Link to="/datasets/$name/$version" params={{ name: dataset.name, version: dataset.version }} {...props} />
                )}
              >
                {datasetReference(dataset)}
              </Anchor>
            ))}
          </span>
        </DetailRow>
      )}
    </>
  );
}

function ImageLink({ image, inCatalogue }: { image: string; inCatalogue: boolean }) {
  const { name, version } = splitReference(image);
  if (image === BARE) return runtimeTitle(BARE);
  if (!inCatalogue || version === null) return image;
  return (
    <Anchor fz="inherit" renderRoot={(props) => <Link to="/images/$name/$version" params={{ name, version }} {...props} />}>
      {image}
    </Anchor>
  );
}
