// The socket: it comes back by itself, and asks for a frame only when the last one has been drawn.
import { decode } from "./wire.js";

export class Socket {
  constructor(onOpen, onWords, onBinary, onState) {
    Object.assign(this, { onOpen, onWords, onBinary, onState });
    this.wait = 500;
    this.connect();
  }

  connect() {
    const socket = new WebSocket(`ws://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.wait = 500;
      this.onState("connected");
      this.onOpen();
    };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") this.onWords(JSON.parse(event.data));
      else this.onBinary(decode(event.data));
    };
    socket.onclose = () => this.lost();
  }

  async lost() {
    this.onState("lost");
    let answer = 0;
    try {
      answer = (await fetch("/api/schema", { cache: "no-store" })).status;
    } catch { /* the server is away */ }
    if (answer === 403) return this.onState("stranger");
    setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(this.wait * 1.6, 5000);
  }

  say(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
