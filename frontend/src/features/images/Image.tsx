import { Alert, Text, TextInput, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Archive, Box, CircleAlert, Package as PackageIcon, Search, Users } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { catalogKeys, changeImage, type Image, imageQuery, imagesQuery, type Package } from "@/api/catalog";
import { meQuery } from "@/api/queries";
import { CatalogHead } from "@/components/CatalogHead";
import { ChangeButton } from "@/components/ChangeButton";
import { CommandLine } from "@/components/CommandLine";
import { DataTable } from "@/components/DataTable";
import { DetailRow, Identifier } from "@/components/DetailRow";
import { EmptyState } from "@/components/EmptyState";
import { PageError } from "@/components/PageError";
import { PageLoading } from "@/components/PageLoading";
import { RetireButton } from "@/components/RetireButton";
import type { Column } from "@/components/table";
import { RelativeTime } from "@/components/Time";
import { VersionList } from "@/components/VersionList";
import { formatBytes } from "@/lib/units";
import { ImageProjects } from "./ImageProjects";
import { runtimeTitle } from "@/lib/runtimes";
import { filterPackages, imageLook, imageReference, shortDigest } from "./images";
import jobClasses from "@/components/Job.module.css";
import classes from "@/components/Catalog.module.css";

export function ImagePage() {
  const { name, version } = useParams({ from: "/shell/images/$name/$version" });
  const query = useQuery(imageQuery(name, version));
  useDocumentTitle(`${name} ${version} · Aitne`);
  if (query.isPending) return <PageLoading />;
  if (!query.data) return <PageError whole error={query.error} onRetry={() => query.refetch()} />;
  return <LoadedImage key={`${name}:${version}`} image={query.data} />;
}

function LoadedImage({ image }: { image: Image }) {
  const { t } = useTranslation();
  const admin = useSuspenseQuery(meQuery).data.user.role === "admin";
  const versions = useQuery(imagesQuery).data?.items.filter((each) => each.name === image.name) ?? [];
  return (
    <>
      <Head image={image} admin={admin} />
      {image.damage !== null && (
        <Alert color="red" icon={<CircleAlert size={18} />} mb="md" title={t("Damaged: new jobs cannot use it")}>
          {image.damage}
          {admin && (
            <span className={classes.command}>
              <CommandLine command={`aitne admin image verify ${imageReference(image)}`} />
            </span>
          )}
        </Alert>
      )}
      {image.state === "retired" && (
        <Alert color="gray" icon={<Archive size={18} />} mb="md" title={t("Retired")}>
          {t("New jobs cannot use this image. Running jobs continue.")}
        </Alert>
      )}
      <div className={classes.grid}>
        <SoftwareBill packages={image.packages} />
        <aside className={`${classes.column ?? ""} ${classes.first ?? ""}`}>
          <section className={`card ${classes.panel ?? ""}`} aria-labelledby="use-title">
            <Title order={2} size="h5" mb="sm" id="use-title">
              {t("Use in a job file")}
            </Title>
            <CommandLine command={`image: ${imageReference(image)}`} what={t("the line")} />
          </section>
          <section className={`card ${classes.panel ?? ""}`} aria-labelledby="digests-title">
            <Title order={2} size="h5" mb="sm" id="digests-title">
              {t("Artifacts")}
            </Title>
            {image.artifacts.map((artifact) => (
              <div key={artifact.runtime} className={classes.runtime} data-testid="image-artifact">
                <span className={classes.runtimeHead}>
                  <strong>{runtimeTitle(artifact.runtime)}</strong>
                  <span className="tabular">{formatBytes(artifact.size_bytes)}</span>
                </span>
                <span className={classes.digest}>
                  <Identifier value={artifact.digest} short={shortDigest(artifact.digest)} what={t("the digest for {{runtime}}", { runtime: runtimeTitle(artifact.runtime) })} />
                </span>
              </div>
            ))}
          </section>
          <Details image={image} />
          {versions.length > 1 && <VersionList to="/images/$name/$version" current={image.version} versions={versions} look={imageLook} />}
        </aside>
      </div>
    </>
  );
}

function Head({ image, admin }: { image: Image; admin: boolean }) {
  const { t } = useTranslation();
  const [editingVisibility, setEditingVisibility] = useState(false);
  return (
    <>
      <CatalogHead back={{ to: "/images", title: t("Images") }} icon={Box} entry={image} look={imageLook(image)}>
        {admin && (
          <>
            <ChangeButton variant="default" size="sm" leftSection={<Users size={15} />} onClick={() => setEditingVisibility(true)} data-testid="image-projects">
              {t("Visibility")}
            </ChangeButton>
            <RetireButton
              title={`${image.name} ${image.version}`}
              retired={image.state === "retired"}
              queryKey={catalogKeys.images}
              change={(retired) => changeImage(image, { state: retired ? "retired" : "offered" })}
            >
              {t("New jobs can no longer use this image. Running jobs continue. Its files are kept until an administrator removes them.")}
            </RetireButton>
          </>
        )}
      </CatalogHead>
      {editingVisibility && <ImageProjects image={image} onClose={() => setEditingVisibility(false)} />}
    </>
  );
}

function Details({ image }: { image: Image }) {
  const { t } = useTranslation();
  const apps = Object.keys(image.apps);
  const env = Object.entries(image.env);
  return (
    <section className={`card ${classes.panel ?? ""}`} aria-labelledby="details-title">
      <Title order={2} size="h5" mb="sm" id="details-title">
        {t("Details")}
      </Title>
      <dl className={jobClasses.list}>
        <DetailRow name={t("Apps")}>{apps.length === 0 ? t("none (batch jobs only)") : apps.join(", ")}</DetailRow>
        <DetailRow name="GPU">{image.needs.cuda === null ? t("not required") : t("driver for CUDA {{cuda}} or later", { cuda: image.needs.cuda })}</DetailRow>
        <DetailRow name={t("Visible to")}>{image.projects.length === 0 ? t("all users") : image.projects.join(", ")}</DetailRow>
        <DetailRow name={t("Added")}>
          <span>
            <RelativeTime at={image.created_at} /> {t("by {{user}}", { user: image.created_by })}
          </span>
        </DetailRow>
        <DetailRow name={t("Verified")}>{image.verified_at === null ? t("on creation") : <RelativeTime at={image.verified_at} />}</DetailRow>
        {env.length > 0 && (
          <DetailRow name={t("Variables")}>
            <span className="mono" style={{ fontSize: 12.5, whiteSpace: "pre-wrap" }}>
              {env.map(([name, value]) => `${name}=${value}`).join("\n")}
            </span>
          </DetailRow>
        )}
      </dl>
    </section>
  );
}

/** Packages shown at first and added by each "Show more". */
const PAGE_SIZE = 200;

function SoftwareBill({ packages }: { packages: Package[] }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const matching = useMemo(() => filterPackages(packages, text), [packages, text]);
  const columns: Column<Package>[] = [
    { header: t("Package"), cell: ({ name }) => name },
    {
      header: t("Version"),
      cell: ({ version }) => (
        <span className="mono" style={{ fontSize: 12.5 }}>
          {version}
        </span>
      ),
    },
    { header: t("Source"), dim: true, hideOnPhone: true, cell: ({ source }) => (source === "python" ? "PyPI" : source === "debian" ? "Debian" : source) },
  ];
  return (
    <section className="card" style={{ overflow: "hidden" }} aria-labelledby="bill-title">
      <div className={classes.panel} style={{ paddingBottom: 0 }}>
        <div className={classes.panelHead}>
          <Title order={2} size="h5" id="bill-title">
            {t("Software")}
          </Title>
          <Text size="sm" c="dimmed" role="status" className="tabular">
            {text.trim() === ""
              ? t("{{count}} packages", { count: packages.length })
              : t("{{found}} of {{count}} packages", { found: matching.length, count: packages.length })}
          </Text>
        </div>
        {packages.length > 0 && (
          <TextInput
            aria-label={t("Search packages")}
            placeholder={t("Search, e.g. numpy")}
            leftSection={<Search size={16} />}
            type="search"
            mb="sm"
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            data-testid="bill-search"
          />
        )}
      </div>
      {packages.length === 0 && (
        <EmptyState icon={PackageIcon} title={t("No package list")}>
          {t("Images built on this platform include a package list. Imported images may not.")}
        </EmptyState>
      )}
      {packages.length > 0 && matching.length === 0 && (
        <EmptyState icon={PackageIcon} title={t("No matching packages")}>
          {t("No package name in this image contains the search text.")}
        </EmptyState>
      )}
      {matching.length > 0 && (
        <DataTable
          caption={t("Packages")}
          scrolls
          columns={columns}
          rows={matching}
          rowKey={({ source, name }) => `${source}/${name}`}
          rowTestId="package-row"
          linked
          step={PAGE_SIZE}
          className={classes.bill}
        />
      )}
    </section>
  );
}
