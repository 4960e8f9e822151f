import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Box } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Image, imagesQuery } from "@/api/catalog";
import { meQuery } from "@/api/queries";
import { CatalogList } from "@/components/CatalogList";
import { CommandLine } from "@/components/CommandLine";
import { DataTable } from "@/components/DataTable";
import type { Column } from "@/components/table";
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
  const columns: Column<Image>[] = [
    {
      header: t("Image"),
      cell: ({ name, version, description }) => (
        <>
          <Link to="/images/$name/$version" params={{ name, version }} className={tableClasses.link}>
            {name} <span style={{ fontWeight: 500 }}>{version}</span>
          </Link>
          <div className={classes.about}>{description}</div>
        </>
      ),
    },
    { header: t("State"), label: null, cell: (image) => <ImageState image={image} /> },
    { header: t("Runtime"), cell: (image) => <ImageBadges image={image} /> },
    {
      header: t("Added"),
      dim: true,
      nowrap: true,
      hideOnPhone: true,
      cell: ({ created_at }) => (
        <span className={tableClasses.above}>
          <RelativeTime at={created_at} />
        </span>
      ),
    },
    { header: t("Size"), align: "right", cell: (image) => formatBytes(imageBytes(image)) },
  ];
  return <DataTable columns={columns} rows={images} rowKey={imageReference} linked rowTestId="image-row" rowProps={(image) => ({ "data-image": imageReference(image) })} />;
}

function ImageState({ image }: { image: Image }) {
  const look = imageLook(image);
  return (
    <ToneBadge tone={look.tone} dot>
      {look.label}
    </ToneBadge>
  );
}
