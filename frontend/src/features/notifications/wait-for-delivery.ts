import type { Delivery } from "@/api/notifications";

const POLL_INTERVAL_MS = 700;
const MAX_POLLS = 45;

/** The delivery when it is sent or has failed, or its state after half a minute. */
export async function waitForDelivery(sent: Delivery, fetchAll: () => Promise<Delivery[]>): Promise<Delivery> {
  let current = sent;
  for (let poll = 0; poll < MAX_POLLS && current.state === "waiting"; poll += 1) {
    await new Promise((resolve) => window.setTimeout(resolve, POLL_INTERVAL_MS));
    current = (await fetchAll()).find((delivery) => delivery.id === sent.id) ?? current;
  }
  return current;
}
