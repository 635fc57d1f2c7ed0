// cable.mjs - a TCP connection that can be harmed on its way.
//
// A cable listens on a port of its own and carries each connection on to the
// coordinator's.  Up is from the agent, down is to it.  What a cut direction
// holds back, ends included, is delivered when the cut heals, as after lost
// packets; a swallowed connection never delivers anything again and says
// nothing, as after a router that forgot it.

import net from "node:net";

class Direction {
    constructor(from, to) {
        this.from = from;
        this.to = to;
        this.waiting = []; // [{due, action}]: what is on its way
        this.cut = false;
        this.swallowed = false;
        this.delay_ms = 0;
        from.on("data", (data) =>
            this.later(() => {
                if (to.writable && !to.write(data)) {
                    from.pause();
                    to.once("drain", () => from.resume());
                }
            }),
        );
        from.on("end", () => this.later(() => to.end()));
        from.on("error", () => this.later(() => to.resetAndDestroy()));
        from.on("close", () => this.later(() => to.end()));
    }

    // In order, and not before its time.
    later(action) {
        if (this.swallowed) return;
        this.waiting.push({ due: Date.now() + this.delay_ms, action });
        this.pass();
    }

    pass() {
        const now = Date.now();
        while (!this.cut && !this.swallowed && this.waiting.length > 0) {
            if (this.waiting[0].due > now) {
                clearTimeout(this.timer);
                const wait_ms = this.waiting[0].due - now;
                this.timer = setTimeout(() => this.pass(), wait_ms);
                return;
            }
            this.waiting.shift().action();
        }
    }

    heal() {
        this.cut = false;
        this.delay_ms = 0;
        this.pass();
    }
}

export class Cable {
    static async open(name, port) {
        const cable = new Cable();
        cable.name = name;
        cable.pairs = new Set();
        cable.state = { up: false, down: false, delay_ms: 0 };
        cable.dead = false; // a swallowed one takes new connections along
        cable.server = net.createServer({ allowHalfOpen: true }, (near) =>
            cable.carry(near, port),
        );
        await new Promise((resolve) =>
            cable.server.listen(0, "127.0.0.1", resolve),
        );
        cable.port = cable.server.address().port;
        return cable;
    }

    carry(near, port) {
        const far = net.connect({
            port,
            host: "127.0.0.1",
            allowHalfOpen: true,
        });
        const pair = {
            near,
            far,
            up: new Direction(near, far),
            down: new Direction(far, near),
        };
        for (const socket of [near, far]) socket.setNoDelay(true);
        this.pairs.add(pair);
        this.apply(pair);
        const gone = () => {
            if (near.destroyed && far.destroyed) this.pairs.delete(pair);
        };
        near.on("close", gone);
        far.on("close", gone);
    }

    apply(pair) {
        for (const name of ["up", "down"]) {
            pair[name].cut = this.state[name];
            pair[name].delay_ms = this.state.delay_ms;
            if (this.dead) pair[name].swallowed = true;
        }
    }

    // @state: {up, down: cut?, delay_ms}
    harm(state) {
        Object.assign(this.state, state);
        for (const pair of this.pairs) this.apply(pair);
    }

    swallow() {
        this.dead = true;
        for (const pair of this.pairs) this.apply(pair);
    }

    reset() {
        for (const { near, far } of this.pairs) {
            near.resetAndDestroy();
            far.resetAndDestroy();
        }
    }

    // What was swallowed stays so; new connections work.
    heal() {
        this.state = { up: false, down: false, delay_ms: 0 };
        this.dead = false;
        for (const { up, down } of this.pairs) {
            up.heal();
            down.heal();
        }
    }

    close() {
        this.server.close();
        for (const { near, far } of this.pairs) {
            near.destroy();
            far.destroy();
        }
    }
}
