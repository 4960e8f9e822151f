import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Image, imagesQuery } from "@/api/catalog";
import { meQuery } from "@/api/queries";
import { CatalogList } from "@/components/CatalogList";
import { CommandLine } from "@/components/CommandLine";
import { RelativeTime } from "@/components/Time";
import { ToneBadge } from "@/components/ToneBadge";
import { formatBytes } from "@/lib/units";
import { ImageBadges } from "./ImageBadges";
import { filterImages, imageBytes, imageLook, imageReference } from "./images";
import tableClasses from "@/components/table.module.css";
import classes from "@/components/Catalog.module.css";

/** List of container images. */
export function ImagesPage() {
  const { t } = useTranslation();
  const { data: me } = useSuspenseQuery(meQuery);
  const admin = me.user.role === "admin";
  return (
    <CatalogList
      title={t("Images")}
      query={useQuery(imagesQuery)}
      isRetired={(image) => image.state === "retired"}
      filter={filterImages}
      count={(count) => t("{{count}} images", { count })}
      none={{
        icon: Box,
        title: t("No images yet"),
        text: admin
          ? t("Jobs run without containers. To build an image, run as root on this machine:")
          : t("Jobs run without containers. An administrator can add images."),
        action: admin && <CommandLine command="aitne admin image build jupyter --yes" />,
      }}
      unmatched={{ used: t("No active image matches. Retired images are hidden."), any: t("No image matches.") }}
    >
      {(matching) => <ImageTable images={matching} />}
    </CatalogList>
  );
}

function ImageTable({ images }: { images: readonly Image[] }) {
  const { t } = useTranslation();
  return (
    <div className={tableClasses.wrap}>
      <table className={tableClasses.table}>
        <thead>
          <tr>
            <th scope="col">{t("Image")}</th>
            <th scope="col">{t("State")}</th>
            <th scope="col">{t("Runtime")}</th>
            <th scope="col">{t("Added")}</th>
            <th scope="col" className={tableClasses.num}>
              {t("Size")}
            </th>
          </tr>
        </thead>
        <tbody>
          {images.map((image) => (
            <ImageRow key={imageReference(image)} image={image} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ImageRow({ image }: { image: Image }) {
  const { t } = useTranslation();
  const look = imageLook(image);
  return (
    <tr className={tableClasses.row} data-testid="image-row" data-image={imageReference(image)}>
      <td>
        <Link to="/images/$name/$version" params={{ name: image.name, version: image.version }} className={tableClasses.link}>
          {image.name} <span style={{ fontWeight: 500 }}>{image.version}</span>
        </Link>
        <div className={classes.about}>{image.description}</div>
      </td>
      <td>
        <ToneBadge tone={look.tone} dot>
          {look.label}
        </ToneBadge>
      </td>
      <td data-label={t("Runtime")}>
        <ImageBadges image={image} />
      </td>
      <td className={`${tableClasses.dim ?? ""} ${tableClasses.nowrap ?? ""} ${tableClasses.wide ?? ""}`} data-label={t("Added")}>
        <span className={tableClasses.above}>
          <RelativeTime at={image.created_at} />
        </span>
      </td>
      <td className={`${tableClasses.num ?? ""} tabular`} data-label={t("Size")}>
        {formatBytes(imageBytes(image))}
      </td>
    </tr>
  );
}
