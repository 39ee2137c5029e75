// Births and deaths: particles that were killed and came back elsewhere since the last frame.
import { paint } from "./look.js";

const MOST = 4000, LASTS = 3; // particles of a cloud that is looked at, frames that a mark lasts

// Those of a cloud that moved ten times as far as the middle one of them, and a fiftieth of the window at least.
function jumped(before, after, span) {
  const n = after.player.n, at = ({ player, reach }, i) => player.planes.map((plane, k) => (plane[i] / 32767) * reach[k]);
  if (before.player.n !== n || n > MOST) return [];
  const moves = Float64Array.from({ length: n }, (_, i) => { const from = at(before, i); return Math.hypot(...at(after, i).map((c, k) => (c - from[k]) / span[k])); });
  const least = Math.max(0.04, 10 * moves.toSorted()[n >> 1]), found = [];
  for (let i = 0; i < n; i++) if (moves[i] > least) found.push({ from: at(before, i), to: at(after, i), age: 0 });
  return found;
}

// The marks of a pane after another frame: those that are still young, and new ones where the run went on.
export function marked(marks, before, after, camera) {
  if (!camera.scene?.jumps || !before || after.step < before.step) return [];
  if (after.step === before.step) return marks;
  const young = marks.map((one) => ({ ...one, age: one.age + 1 })).filter((one) => one.age < LASTS);
  const pairs = after.lane.players.map((player, i) => [{ player: before.lane.players[i], reach: before.reach }, { player, reach: after.reach }]);
  return [...young, ...pairs.flatMap(([one, other]) => (one.player ? jumped(one, other, camera.span) : []))];
}

// A ring around who is born, an open square where one has died; both fade.
export function marksOf(context, width, height, camera, marks) {
  context.strokeStyle = paint().ink;
  context.lineWidth = 1;
  for (const { from, to, age } of marks) {
    const [x, y] = camera.project(to, width, height), [u, v] = camera.project(from, width, height);
    context.globalAlpha = 0.6 * (1 - age / LASTS);
    context.beginPath(); context.arc(x, y, 5, 0, 7); context.stroke();
    context.strokeRect(u - 2.5, v - 2.5, 5, 5);
  }
  context.globalAlpha = 1;
}
