import { type ComboboxItem, Input, type OptionsFilter, SegmentedControl, Select, Text } from "@mantine/core";
import { useId } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Box, Check, Server } from "lucide-react";
import { useTranslation } from "react-i18next";
import { type Image, imagesQuery } from "@/api/catalog";
import type { Template } from "@/api/types";
import { ImageBadges } from "@/features/images/ImageBadges";
import { fittingImages, imageBytes, imageOf, imageReference, matchesImage } from "@/features/images/images";
import { BARE, runtimeTitle } from "@/lib/runtimes";
import { formatBytes } from "@/lib/units";
import { type LaunchValues, DEFAULT_CONTAINER } from "./launch";
import classes from "@/components/Picker.module.css";

interface Props {
  template: Template;
  values: LaunchValues;
  errors: Partial<Record<string, string>>;
  onChange: (change: Partial<LaunchValues>) => void;
}

/** The image of the job: an image of the catalogue, or no container. */
export function ImageField({ template, values, errors, onChange }: Props) {
  const { t } = useTranslation();
  const query = useQuery(imagesQuery);
  const images = fittingImages(query.data?.items ?? [], template, values.project);
  const defaultReference = template.image === BARE ? BARE : fullReference(images, template.image);
  const selected = values.image ?? defaultReference;
  const image = imageOf(images, selected);
  const byReference = new Map(images.map((entry) => [imageReference(entry), entry]));
  const options = optionsOf(images, selected, defaultReference);
  return (
    <>
      <Select
        label={t("Image")}
        description={t("Container image with the software of the job.")}
        data={options}
        value={selected}
        error={errors.image}
        searchable
        allowDeselect={false}
        maxDropdownHeight={340}
        leftSection={selected === BARE ? <Server size={16} aria-hidden /> : <Box size={16} aria-hidden />}
        filter={search(byReference)}
        // Typing replaces the current name.
        onFocus={(event) => event.currentTarget.select()}
        nothingFoundMessage={t("No image matches.")}
        renderOption={({ option, checked }) => <Option image={byReference.get(option.value)} label={option.label} checked={checked ?? false} />}
        onChange={(next) => onChange({ image: next === defaultReference ? null : next, container: DEFAULT_CONTAINER })}
        data-testid="launch-image"
      />
      {image && (
        <div className={classes.about}>
          <Text size="xs" c="dimmed">
            {image.description}
          </Text>
          <ImageBadges image={image} />
        </div>
      )}
      {query.isError && !query.data && (
        <Text size="xs" c="var(--warn)" role="status">
          {t("Could not load the images. Available: no container, or the template's image.")}
        </Text>
      )}
      {image && image.artifacts.length > 1 && (
        <Runtimes
          image={image}
          value={values.container.runtime}
          error={errors.runtime}
          onChange={(runtime) => onChange({ container: { ...values.container, runtime } })}
        />
      )}
    </>
  );
}

/** The reference with the version of the catalogue, to match one of the options. */
function fullReference(images: readonly Image[], reference: string): string {
  const image = imageOf(images, reference);
  return image === undefined ? reference : imageReference(image);
}

function optionsOf(images: readonly Image[], selected: string, defaultReference: string): ComboboxItem[] {
  const names = [...new Set([BARE, ...images.map(imageReference), defaultReference, selected])];
  return names.map((value) => ({ value, label: value === BARE ? runtimeTitle(BARE) : value.replace(":", " ") }));
}

function search(byReference: ReadonlyMap<string, Image>): OptionsFilter {
  return ({ options, search: text }) =>
    options.filter((option) => {
      if (!("value" in option)) return true;
      const image = byReference.get(option.value);
      return matchesImage(image ?? { name: option.label, version: option.value, description: "" }, text);
    });
}

function Option({ image, label, checked }: { image: Image | undefined; label: string; checked: boolean }) {
  const { t } = useTranslation();
  return (
    <span className={classes.option}>
      <span className={classes.optionText}>
        <span className={classes.optionHead}>
          <strong>{label}</strong>
          {image && <span className={classes.dim}>{formatBytes(imageBytes(image))}</span>}
        </span>
        <span className={classes.optionSub}>{image ? image.description : label === runtimeTitle(BARE) ? t("Uses the software installed on the node.") : t("Not in the catalogue.")}</span>
        {image && <ImageBadges image={image} />}
      </span>
      {checked && <Check size={16} aria-hidden />}
    </span>
  );
}

interface RuntimeProps {
  image: Image;
  value: string | null;
  error: string | undefined;
  onChange: (runtime: string | null) => void;
}

function Runtimes({ image, value, error, onChange }: RuntimeProps) {
  const { t } = useTranslation();
  const id = useId();
  return (
    <Input.Wrapper label={t("Runtime")} labelElement="div" labelProps={{ id }} error={error}>
      <SegmentedControl
        mt={4}
        fullWidth
        aria-labelledby={id}
        data={[
          { value: "", label: t("Default") },
          ...image.artifacts.map(({ runtime }) => ({ value: runtime, label: runtimeTitle(runtime) })),
        ]}
        value={value ?? ""}
        onChange={(next) => onChange(next === "" ? null : next)}
        data-testid="launch-runtime"
      />
    </Input.Wrapper>
  );
}
