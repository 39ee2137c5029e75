// Messages: four bytes of length, a JSON header, and 16-bit or 32-bit numbers. See frames.py.

export function decode(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  return { header, body: buffer.slice(4 + size) };
}

// The clouds of a frame: for each lane its players, each with an Int16Array (n × 4) of x, y, z and weight.
export function cloudsOf(header, body) {
  let at = 0;
  return header.lanes.map((lane) => ({
    name: lane.name,
    players: lane.players.map((player) => {
      const data = new Int16Array(body, at, 4 * player.n);
      at += 8 * player.n;
      return { name: player.name, n: player.n, data };
    }),
  }));
}
