// Messages: four bytes of length, a JSON header, and 16-bit or 32-bit numbers from `at` on. See frames.py.

export function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  return { header: JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))), buffer, at: 4 + size };
}

// The clouds of a frame: for each lane its players, each with one plane of n 16-bit numbers for every axis, and the
// weights where they differ. `data` is all of them together.
export function cloudsOf({ header, buffer, at }) {
  return header.lanes.map((lane) => ({
    name: lane.name,
    players: lane.players.map(({ name, n, weighs }) => {
      const data = new Int16Array(buffer, at, n * (header.places + (weighs ? 1 : 0)));
      at += data.byteLength;
      const planes = Array.from({ length: header.places }, (_, i) => data.subarray(i * n, (i + 1) * n));
      return { name, n, data, planes, weights: weighs ? data.subarray(header.places * n) : null };
    }),
  }));
}
