import { expect, it } from "vitest";
import { cpuEnergyOf, energyOf, formatOf, isExpired, limitOf, newest, type SampleValue, seriesOf, summaryOf, valueSeries } from "./metrics";

const value = (change: Partial<SampleValue>): SampleValue => ({ name: "utilization", source: "gpu", unit: "ratio", title: "GPU utilization", figure: "mean", ...change });

const sample = (time: string, node: string, cpu: number) => ({ time, node, cpu, memory_bytes: 1, processes: 1, gpu: [], cpu_energy_j: null });

it("puts the samples of several nodes on one axis", () => {
  const series = seriesOf(
    [
      sample("2026-03-01T12:00:02.2Z", "n10", 1),
      sample("2026-03-01T12:00:00Z", "n2", 2),
      sample("2026-03-01T12:00:02.4Z", "n2", 3),
    ],
    (entry) => entry.cpu,
  );
  expect(series.times).toHaveLength(2);
  expect(series.lines).toEqual([
    { name: "n2", values: [2, 3] },
    { name: "n10", values: [null, 1] },
  ]);
});

it("summarizes a run by mean and peak over all nodes", () => {
  const series = seriesOf(
    [sample("2026-03-01T12:00:00Z", "n1", 1), sample("2026-03-01T12:00:02Z", "n1", 3), sample("2026-03-01T12:00:02Z", "n2", 2)],
    (entry) => entry.cpu,
  );
  expect(summaryOf(series)).toEqual({ last: 2.5, mean: 2, peak: 3 });
  expect(summaryOf(seriesOf([], (entry) => entry.cpu))).toBeNull();
});

it("has no share of an amount that is not known", () => {
  const series = seriesOf([sample("2026-03-01T12:00:00Z", "n1", 1), sample("2026-03-01T12:00:02Z", "n1", 3)], (entry) => entry.cpu);
  expect(limitOf(4, series, String)).toEqual({ limit: 4, of: "4" });
  expect(limitOf(0, series, String)).toEqual({ limit: 3 });
});

it("draws a line for each GPU of each node", () => {
  const at = (time: string, node: string, gpu: Record<string, unknown>[]) => ({ ...sample(time, node, 1), gpu });
  const samples = [
    at("2026-03-01T12:00:00Z", "n1", [{ index: 0, utilization: 0.5, memory_bytes: 8 }, { index: 1, utilization: 1 }]),
    at("2026-03-01T12:00:05Z", "n2", [{ index: 0, utilization: 0.25 }]),
  ];
  const busy = valueSeries(samples, value({}));
  expect(busy.lines).toEqual([
    { name: "n1 · GPU 0", values: [50, null] },
    { name: "n1 · GPU 1", values: [100, null] },
    { name: "n2 · GPU 0", values: [null, 25] },
  ]);
  expect(newest(busy)).toEqual([
    { name: "n1 · GPU 0", value: 50 },
    { name: "n1 · GPU 1", value: 100 },
    { name: "n2 · GPU 0", value: 25 },
  ]);
  expect(newest(valueSeries(samples, value({ name: "memory_bytes", unit: "bytes" })))).toEqual([{ name: "n1 · GPU 0", value: 8 }]);
});

it("detects jobs without retained measurements", () => {
  const now = new Date("2026-06-01T00:00:00Z");
  expect(isExpired("2026-03-01T00:00:00Z", now)).toBe(true);
  expect(isExpired("2026-05-01T00:00:00Z", now)).toBe(false);
  expect(isExpired(null, now)).toBe(false);
});

it("sums the energy of CPUs by node, and knows where none is measured", () => {
  const measured = (node: string, joules: number | null) => ({ ...sample("2026-03-01T12:00:00Z", node, 1), cpu_energy_j: joules });
  // The agent counts anew after a restart of the job.
  expect(cpuEnergyOf([measured("n1", 5), measured("n2", 7), measured("n1", 40), measured("n1", 3), measured("n3", null)])).toEqual({
    total: 47,
    nodes: [
      { name: "n1", joules: 40 },
      { name: "n2", joules: 7 },
    ],
  });
  expect(cpuEnergyOf([measured("n1", null)])).toBeNull();
});

it("sums the energy of GPUs by node, and knows where none is measured", () => {
  const measured = (node: string, ...energy: number[]) => ({ ...sample("2026-03-01T12:00:00Z", node, 1), gpu: energy.map((joules, index) => ({ index, energy_j: joules, power_w: 300 })) });
  const samples = [measured("n2", 100, 50), measured("n10", 10), measured("n2", 400, 200)];
  expect(energyOf(samples)).toEqual({ total: 610, nodes: [{ name: "n2", joules: 600 }, { name: "n10", joules: 10 }] });
  expect(energyOf([sample("2026-03-01T12:00:00Z", "n1", 1), { ...sample("2026-03-01T12:00:00Z", "n1", 1), gpu: [{ index: 0, utilization: 1 }] }])).toBeNull();
  expect(summaryOf(valueSeries(samples, value({ name: "power_w", unit: "W" })))?.peak).toBe(300);
});

it("draws what a node measures as a line for each node, with the unit that the platform names", () => {
  const samples = [{ ...sample("2026-03-01T12:00:00Z", "n1", 1), cpu_energy_j: 5 }, sample("2026-03-01T12:00:00Z", "n2", 1)];
  const energy = value({ name: "cpu_energy_j", source: "node", unit: "J" });
  expect(valueSeries(samples, energy).lines).toEqual([
    { name: "n1", values: [5] },
    { name: "n2", values: [null] },
  ]);
  expect([formatOf("°C")(61.4), formatOf("ratio")(61.4), formatOf("bytes")(1024)]).toEqual(["61\u00a0°C", "61\u00a0%", "1\u00a0KiB"]);
});
