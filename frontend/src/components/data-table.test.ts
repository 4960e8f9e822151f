import { MantineProvider } from "@mantine/core";
import { type ComponentProps, createElement, type ReactElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { DataTable } from "./DataTable";
import { GridRow, GridTable } from "./GridTable";
import { ariaSortOf, type Column, nextDescending, withSelected } from "./table";

interface Disk {
  name: string;
  bytes: number;
}

const COLUMNS: Column<Disk, "name" | "size">[] = [
  { header: "Disk", sort: "name", cell: ({ name }) => name },
  { header: "Size", sort: "size", descendingFirst: true, align: "right", cell: ({ bytes }) => bytes },
  { header: "State", label: null, cell: () => "good" },
];
const DISKS = [{ name: "sda", bytes: 10 }, { name: "sdb", bytes: 20 }, { name: "sdc", bytes: 30 }];

const inProvider = (element: ReactElement) => renderToStaticMarkup(createElement(MantineProvider, null, element));
const render = (change: Partial<ComponentProps<typeof DataTable<Disk, "name" | "size">>> = {}) =>
  inProvider(createElement(DataTable<Disk, "name" | "size">, { columns: COLUMNS, rows: DISKS, rowKey: ({ name }) => name, rowTestId: "disk", ...change }));

it("names the values by their columns, for narrow screens", () => {
  const html = render();
  expect(html.match(/<th scope="col"/g)).toHaveLength(3);
  expect(html).toMatch(/<tr data-testid="disk"><td>sda<\/td><td data-label="Size"[^>]*>10<\/td><td>good<\/td>/);
});

it("has a name and, if it is wide, a place that the keyboard scrolls", () => {
  expect(render({ caption: "Disks" })).toContain('<caption class="visually-hidden">Disks</caption>');
  expect(render({ caption: "Disks" })).not.toContain("tabindex");
  expect(render({ caption: "Disks", scrolls: true })).toMatch(/<div[^>]* tabindex="0" role="group" aria-label="Disks"/);
  expect(render({ labelledBy: "title" })).toContain('aria-labelledby="title"');
});

it("has the buttons of a row at its end, under a header for screen readers", () => {
  const html = render({ actions: ({ name }) => `Eject ${name}` });
  expect(html).toContain('<th scope="col"><span class="visually-hidden">Actions</span></th></tr>');
  expect(html).toMatch(/>Eject sdb<\/td><\/tr>/);
});

it("shows a step of the rows and tells how many are left", () => {
  const html = render({ step: 2 });
  expect(html.match(/data-testid="disk"/g)).toHaveLength(2);
  expect(html).toContain("Show more (1 left)");
  expect(render({ step: 3 })).not.toContain("Show more");
});

it("tells how it is sorted and turns the order round at a click", () => {
  const sorting = { by: "size" as const, descending: true, onSort: vi.fn(), testId: "sort" };
  const html = render({ sorting });
  expect(html).toMatch(/<th scope="col" aria-sort="none"><button[^>]*data-testid="sort-name"/);
  expect(html).toMatch(/<th [^>]*aria-sort="descending"><button[^>]*data-testid="sort-size"/);
  expect(render()).not.toContain("aria-sort");
  const [name, size, state] = COLUMNS;
  expect([name, size].map((column) => column && nextDescending(column, sorting))).toEqual([false, false]);
  expect(size && nextDescending(size, { ...sorting, by: "name" })).toBe(true);
  expect(state && ariaSortOf(state, sorting)).toBeUndefined();
});

it("has a checkbox for each row and one for all", () => {
  const selection = { selected: new Set(["sda", "sdb"]), onSelect: vi.fn(), allLabel: "All disks", labelOf: ({ name }: Disk) => `Select ${name}`, testId: "all" };
  const html = render({ selection });
  expect(html).toMatch(/<input[^>]*aria-label="All disks"[^>]*/);
  expect(html.match(/checked=""/g)).toHaveLength(2);
  expect(render({ selection: { ...selection, selected: new Set(["sda", "sdb", "sdc"]) } }).match(/checked=""/g)).toHaveLength(4);
  expect([...withSelected(new Set(["sda"]), ["sdb", "sdc"], true)]).toEqual(["sda", "sdb", "sdc"]);
  expect([...withSelected(new Set(["sda", "sdb"]), ["sda"], false)]).toEqual(["sdb"]);
});

it("tells in place of the rows that they load, are missing or are none", () => {
  const query = { isPending: false, error: null, refetch: vi.fn() };
  expect(render({ query: { ...query, isPending: true }, rows: undefined })).toContain('aria-busy="true"');
  const failed = render({ query: { ...query, error: new Error("No answer.") }, rows: undefined });
  expect(failed).toContain('role="alert"');
  expect(failed).toContain("No answer.");
  expect(render({ query, rows: [], empty: "No disks" })).not.toContain("<table");
  expect(render({ query, rows: [], empty: "No disks" })).toContain("No disks");
  expect(render({ query, empty: "No disks" }).match(/data-testid="disk"/g)).toHaveLength(3);
});

it("has the same columns where the rows are a grid", () => {
  const rows = DISKS.map((row, index) => createElement(GridRow<Disk, "name" | "size">, { key: row.name, row, columns: COLUMNS, index, attributes: { "data-testid": "disk" } }));
  const html = inProvider(createElement(GridTable<Disk, "name" | "size">, { caption: "Disks", columns: COLUMNS, total: 9, children: rows }));
  expect(html).toMatch(/role="table" aria-label="Disks" aria-rowcount="10"/);
  expect(html.match(/role="columnheader"/g)).toHaveLength(3);
  expect(html).toMatch(/role="row" aria-rowindex="4" data-testid="disk"/);
});
