"""A server of chat completions on loopback that misbehaves as its script says."""

import contextlib
import json
import socket
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = {"prompt_tokens": 30, "completion_tokens": 4}


def completion(content, **more):
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": GOOD}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        server = self.server
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.counting:
            server.asked.append(self.body)
            server.headers.append(dict(self.headers))
            server.flying.add(self)
            server.most = max(server.most, len(server.flying))
            act = server.script.pop(0) if server.script else server.act
        try:
            with contextlib.suppress(OSError):
                act(self)
        finally:
            self._land()

    def _land(self):
        with self.server.counting:
            self.server.flying.discard(self)

    def say(self, content, status=200, **headers):
        """Answer with JSON, or with bytes as they are."""
        self._land()  # before the asker can have the answer, and ask again
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def drip(self, data, pause=0.02):
        """Send bytes one by one until the client leaves."""
        self.close_connection = True
        for place in range(len(data)):
            self.wfile.write(data[place : place + 1])
            self.wfile.flush()
            if self.server.closing.wait(pause):
                return
        self.server.finished.append(self)

    def log_message(self, *_):
        pass


class ChatServer(ThreadingHTTPServer):
    """`script` has functions of a handler, one a request; then `act` answers."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, act, port=0):
        self.act, self.script, self.asked, self.headers = act, [], [], []
        self.flying, self.most, self.connections = set(), 0, []
        self.finished = []  # handlers that came to the end of a hang or of a drip
        self.counting, self.closing = threading.Lock(), threading.Event()
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def get_request(self):
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, *_):
        pass

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.shutdown()
        self._thread.join()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


def says(content, **more):
    return lambda handler: handler.say(completion(content, **more))


def fails(status, text="no", **headers):
    return lambda handler: handler.say({"error": {"message": text}}, status, **headers)


def raw(data):
    return lambda handler: handler.say(data)


def waits(seconds, content="hello"):
    def act(handler):
        handler.server.closing.wait(seconds)
        handler.say(completion(content))

    return act


def hangs(handler):
    if not handler.server.closing.wait(30):
        handler.server.finished.append(handler)
    handler.close_connection = True


def resets(handler):
    handler.close_connection = True


def drips_headers(handler):
    handler.drip(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(500)))


def drips_body(handler):
    handler.drip(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b" " * 5000)


def drips_chunks(handler):
    handler.drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 5000)


def cuts(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
    handler.close_connection = True


def gibberish(handler):
    handler.wfile.write(b"\x16\x03\x01 what?\r\n\r\n")
    handler.close_connection = True


def endless_header(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while not handler.server.closing.is_set():
        handler.wfile.write(b"a" * 65536)


def bomb(status=200, size=400 << 20):
    """gzip that unpacks to `size` zeros."""

    def act(handler):
        packer, zeros = zlib.compressobj(1, zlib.DEFLATED, 31), b"\0" * (1 << 20)
        handler.send_response(status)
        handler.send_header("Content-Encoding", "gzip")
        handler.end_headers()
        handler.close_connection = True
        for _ in range(size >> 20):
            handler.wfile.write(packer.compress(zeros))
        handler.wfile.write(packer.flush())

    return act


def floods(status=200, length=None):
    """A body without an end."""

    def act(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(length or 1 << 40))
        handler.end_headers()
        handler.close_connection = True
        while not handler.server.closing.is_set():
            handler.wfile.write(b" " * 65536)

    return act
