"""Uploads, sells and downloads files that are in a bucket: as links to it, and through the server.

Arguments: the program of the server, and a folder for its data. moto plays S3; it does not check signatures.
"""

import hashlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

program, folder = sys.argv[1], Path(sys.argv[2])
TOKEN, SECRET = "the-sellers-own-token", "the-platforms-secret"
FILM = random.Random(1).randbytes(12 << 20)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def until(is_so, what, seconds=30):
    for _ in range(seconds * 20):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def ask(address, method="GET", body=None, **headers):
    """Returns the status, the header fields and the body. Follows no redirect."""
    url = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"{url.path}?{url.query}" if url.query else url.path, body, headers)
    reply = connection.getresponse()
    return reply.status, reply.headers, reply.read()


class Bucket:
    def __init__(self):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        moto = [sys.executable, "-m", "moto.server", "-p", str(port)]
        self.process = subprocess.Popen(moto, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.answers, "moto answers")
        assert ask(f"{self.url}/shop", "PUT")[0] == 200

    def answers(self):
        try:
            return ask(self.url)[0] == 200
        except OSError:
            return False

    def objects(self):
        return re.findall("<Key>(.*?)</Key>", ask(f"{self.url}/shop?list-type=2")[2].decode())

    def unfinished(self):
        return ask(f"{self.url}/shop?uploads")[2].decode().count("<UploadId>")


class Server:
    def __init__(self, bucket, **settings):
        self.settings = {
            **os.environ, "ADMIN_TOKEN": TOKEN, "WEBHOOK_SECRET": SECRET, "KEY_SECRET": "what-keys-are-signed-with",
            "DATA_DIR": str(folder / "data"), "BIND": f"127.0.0.1:{free_port()}", "LIMIT_ADMIN": "100000",
            "FILES_URL": "s3://shop/files", "AWS_ENDPOINT": bucket.url, "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-bucket-secret", **settings,
        }
        self.url = f"http://{self.settings['BIND']}"
        self.log = open(folder / "log", "ab")
        self.process = subprocess.Popen([program], env=self.settings, stdout=subprocess.DEVNULL, stderr=self.log)
        until(self.answers, "the server answers")

    def answers(self):
        assert self.process.poll() is None, Path(self.log.name).read_text()
        try:
            return ask(f"{self.url}/healthz")[0] == 200
        except OSError:
            return False

    def seller(self, path, body):
        json_body = {"Authorization": f"Bearer {TOKEN}", "Content_Type": "application/json"}
        status, _, reply = ask(f"{self.url}/api/admin/{path}", "POST", json.dumps(body), **json_body)
        assert status in (200, 201), reply
        return json.loads(reply)

    def put(self, name, body, **headers):
        address = f"{self.url}/api/admin/product/file?product_id=1&name={name}"
        return ask(address, "PUT", body, Authorization=f"Bearer {TOKEN}", **headers)

    def links(self, key):
        status, _, reply = ask(f"{self.url}/api/product?product_id=1", X_API_Key=key)
        assert status == 200, reply
        return {file["name"]: file["url"] for file in json.loads(reply)["product"]["files"]}

    def check(self):
        return subprocess.run([program, "check"], env=self.settings, capture_output=True, text=True)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0


def breaks_off(server):
    """Sends 7 MiB of a file of 20 MiB."""
    connection = socket.create_connection(tuple(server.settings["BIND"].split(":")))
    head = f"PUT /api/admin/product/file?product_id=1&name=half.bin HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer {TOKEN}\r\n"
    connection.sendall(f"{head}Content-Length: {20 << 20}\r\n\r\n".encode() + FILM[: 7 << 20])
    connection.close()


bucket = Bucket()
server = Server(bucket)
server.seller("product", {"name": "Film", "content": "# Film"})
status, _, reply = server.put("film.mp4", FILM, Content_Type="video/mp4")
assert status == 200 and json.loads(reply)["file"]["sha256"] == hashlib.sha256(FILM).hexdigest(), reply
assert server.put("small.txt", b"small")[0] == 200
objects = bucket.objects()
assert len(objects) == 2 and all(name.startswith("files/") for name in objects), objects

# Nothing stays of a file with another digest, or of one that broke off.
assert server.put("other.bin", FILM, Content_SHA256="0" * 64)[0] == 400
breaks_off(server)
until(lambda: bucket.objects() == objects and bucket.unfinished() == 0, "nothing is left of what broke off")

# A download is a link to the bucket that lasts five minutes. It names the file.
key = server.seller("issue-key", {"product_id": 1, "customer_email": "ada@example.com"})["api_key"]
links = server.links(key)
status, headers, _ = ask(links["film.mp4"])
link = headers["Location"]
asked = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
assert status == 302 and headers["Cache-Control"] == "no-store" and link.startswith(bucket.url), (status, link)
assert asked["X-Amz-Expires"] == ["300"] and asked["X-Amz-Signature"], link
assert "a-bucket-secret" not in link
status, headers, film = ask(link)
assert status == 200 and film == FILM
assert headers["Content-Disposition"].startswith('attachment; filename="film.mp4"'), headers
assert headers["Content-Type"] == "video/mp4", headers
status, _, part = ask(link, Range="bytes=1000-1999")
assert status == 206 and part == FILM[1000:2000]
assert ask(links["small.txt"].replace("/small", "x/small"))[0] == 404
server.stop()

# Through the server, as from a folder.
server = Server(bucket, FILES_PROXY="true")
links = server.links(key)
status, headers, film = ask(links["film.mp4"])
assert status == 200 and film == FILM and headers["Content-Length"] == str(len(FILM)), headers
status, headers, part = ask(links["film.mp4"], Range="bytes=-1000")
assert status == 206 and part == FILM[-1000:], headers
status, headers, nothing = ask(links["film.mp4"], "HEAD")
assert status == 200 and nothing == b"" and headers["Content-Length"] == str(len(FILM)), headers
server.seller("product/file/delete", {"product_id": 1, "name": "small.txt"})
assert ask(links["small.txt"])[2] == b"small", "whoever has the link can finish"

# `check` sees what is not there.
checked = server.check()
assert checked.returncode == 0, checked
signed = "AWS4-HMAC-SHA256 Credential=an-id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
for name in objects:
    reply = ask(f"{bucket.url}/shop/{name}", "DELETE", Authorization=signed)
    assert reply[0] == 204, reply
checked = server.check()
assert checked.returncode == 1 and "PROBLEM: 1 of 1 files are missing" in checked.stdout, checked

# A bucket that is away.
bucket.process.kill()
status, _, reply = server.put("late.bin", b"late")
assert status == 503, (status, reply)
assert server.seller("issue-key", {"product_id": 1, "customer_email": "bob@example.com"})["success"]
server.stop()
assert "a-bucket-secret" not in Path(server.log.name).read_text()
print("files in a bucket: uploaded, sold, and downloaded by links and through the server")
