import { Button, Indicator, NumberInput, Popover, SegmentedControl, Select, SimpleGrid, Switch, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Search, SlidersHorizontal } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { templatesQuery } from "@/api/queries";
import { type JobFilters, MORE, moreCount, period } from "@/lib/job-filters";
import { STATE_GROUPS } from "@/lib/states";
import classes from "@/pages/Jobs.module.css";

interface Props {
  filters: JobFilters;
  projects: readonly string[];
  onChange: (change: JobFilters) => void;
  /** Not where everybody's are shown anyway. */
  everyones?: boolean;
  children?: ReactNode;
}

const TYPING_MS = 250;

export function JobFilterBar({ filters, projects, onChange, everyones = true, children }: Props) {
  const { t } = useTranslation();
  return (
    <div className={classes.filters} role="search">
      <Typed
        className={classes.search ?? ""}
        label={t("Search by name")}
        bare
        value={filters.q ?? ""}
        onChange={(q) => onChange({ q })}
        testId="jobs-search"
      />
      <Select
        aria-label={t("State")}
        placeholder={t("Any state")}
        clearable
        w={188}
        data={STATE_GROUPS.map(({ value, label }) => ({ value, label: t(label) }))}
        value={filters.state ?? null}
        onChange={(state) => onChange({ state: state ?? undefined })}
        data-testid="jobs-state"
      />
      <SegmentedControl
        aria-label={t("Type")}
        data={[
          { value: "any", label: t("All") },
          { value: "job", label: t("Jobs") },
          { value: "session", label: t("Sessions") },
        ]}
        value={filters.type ?? "any"}
        onChange={(type) => onChange({ type: type === "any" ? undefined : type })}
      />
      <MoreFilters filters={filters} projects={projects} onChange={onChange} />
      {everyones && (
        <Switch
          label={t("Everyone's")}
          checked={filters.all === true}
          onChange={(event) => onChange({ all: event.currentTarget.checked })}
          data-testid="jobs-all"
        />
      )}
      {children}
    </div>
  );
}

function MoreFilters({ filters, projects, onChange }: Omit<Props, "children" | "everyones">) {
  const { t } = useTranslation();
  const templates = useQuery(templatesQuery).data?.items ?? [];
  const used = moreCount(filters);
  const days = { today: t("Today"), week: t("7 days"), month: t("30 days"), year: t("This year"), "last-year": t("Last year") } as const;
  return (
    <Popover position="bottom-start" shadow="md" width={380} trapFocus>
      <Indicator label={used} size={17} disabled={used === 0}>
        <Popover.Target>
          <Button variant="default" leftSection={<SlidersHorizontal size={16} />} data-testid="jobs-more">
            {t("Filter")}
          </Button>
        </Popover.Target>
      </Indicator>
      <Popover.Dropdown>
        <SimpleGrid cols={2} spacing="sm" verticalSpacing="xs">
          <Select
            label={t("Template")}
            clearable
            data={templates.map(({ name, title }) => ({ value: name, label: title }))}
            value={filters.template ?? null}
            onChange={(template) => onChange({ template: template ?? undefined })}
            comboboxProps={{ withinPortal: false }}
          />
          <Select
            label={t("Project")}
            clearable
            data={[...projects]}
            value={filters.project ?? null}
            onChange={(project) => onChange({ project: project ?? undefined })}
            comboboxProps={{ withinPortal: false }}
          />
          <Typed label={t("Owner")} value={filters.owner ?? ""} onChange={(owner) => onChange({ owner: owner || undefined, ...(owner ? { all: true } : {}) })} />
          <Typed label={t("Image")} value={filters.image ?? ""} onChange={(image) => onChange({ image: image || undefined })} />
          <Typed label={t("Node")} value={filters.node ?? ""} onChange={(node) => onChange({ node: node || undefined })} />
          <Typed label={t("GPU type")} value={filters.gpu ?? ""} onChange={(gpu) => onChange({ gpu: gpu || undefined })} />
          <NumberInput
            label={t("GPUs, at least")}
            min={0}
            value={filters.gpus ?? ""}
            onChange={(value) => onChange({ gpus: typeof value === "number" ? value : undefined })}
          />
          <Select
            label={t("Arrays")}
            placeholder={t("With others")}
            clearable
            data={[
              { value: "yes", label: t("Only arrays") },
              { value: "no", label: t("No arrays") },
            ]}
            value={filters.array === undefined ? null : filters.array ? "yes" : "no"}
            onChange={(value) => onChange({ array: value === null ? undefined : value === "yes" })}
            comboboxProps={{ withinPortal: false }}
          />
          <TextInput type="date" label={t("Created from")} value={filters.from ?? ""} onChange={(event) => onChange({ from: event.currentTarget.value || undefined })} />
          <TextInput type="date" label={t("to")} value={filters.to ?? ""} onChange={(event) => onChange({ to: event.currentTarget.value || undefined })} />
        </SimpleGrid>
        <div className={classes.periods}>
          {(Object.keys(days) as (keyof typeof days)[]).map((name) => (
            <Button key={name} size="compact-xs" variant="light" onClick={() => onChange(period(name, new Date()))}>
              {days[name]}
            </Button>
          ))}
          <Button
            size="compact-xs"
            variant="subtle"
            ml="auto"
            disabled={used === 0}
            onClick={() => onChange(Object.fromEntries(MORE.map((name) => [name, undefined])))}
          >
            {t("Clear")}
          </Button>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

interface TypedProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  /** The search field: its label is its placeholder. */
  bare?: boolean;
  className?: string;
  testId?: string;
}

/** Text that takes effect when somebody pauses. */
function Typed({ label, value, onChange, bare = false, className = "", testId }: TypedProps) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const send = useDebouncedCallback((next: string) => {
    sent.current = next;
    onChange(next);
  }, TYPING_MS);
  useEffect(() => {
    // Back and forward change the address; the field follows, but never while somebody types into it.
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  return (
    <TextInput
      className={className}
      {...(bare ? { "aria-label": label, placeholder: label, leftSection: <Search size={16} />, type: "search" } : { label })}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        send(event.currentTarget.value.trim());
      }}
      data-testid={testId}
    />
  );
}
