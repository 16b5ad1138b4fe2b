"""A shop to make pictures of: shop.py sell URL DAY FOLDER, sale URL FOLDER, look URL FOLDER PICTURES."""
import base64, email, email.policy, glob, hashlib, hmac, json, os, random, sys, time, urllib.error, urllib.parse, urllib.request

TOKEN = os.environ["ADMIN_TOKEN"]
DRIVER = "http://127.0.0.1:9516"


def send(url, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **{name.replace("_", "-"): it for name, it in headers.items()}}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return json.load(answer)


def admin(url, path, body=None):
    return send(url + path, body, Authorization="Bearer " + TOKEN)


def order(url, number, product, address):
    body = {"order_id": number, "product_id": product, "customer_email": address, "secret": os.environ["WEBHOOK_SECRET"]}
    return send(url + "/api/webhook/order", body)["api_key"]


def sell(url, day, folder):
    """The sales and the uses of a day."""
    chance = random.Random(int(day))
    if day == "29":
        guide = {"name": "Field Guide", "content": "# Field Guide\n\nThank you for reading.", "price": 9.99,
                 "description": "Two hundred birds, with their songs.", "refs": {"stripe": ["plink_guide"]}}
        admin(url, "/api/admin/product", guide)
        admin(url, "/api/admin/product", {"name": "Atlas", "content": "# Atlas", "price": 24, "max_uses": 20})
    names = ["ada", "grace", "linus", "barbara", "donald", "margaret", "ken", "frances", "edsger", "radia"]
    with open(folder + "/keys", "a+") as file:
        for number in range(chance.randint(3, 14)):
            product = chance.choice([1, 1, 1, 2])
            key = order(url, f"{1000 + 20 * int(day) + number}", product, f"{chance.choice(names)}@example.com")
            file.write(f"{product} {key}\n")
        file.seek(0)
        keys = [line.split() for line in file]
    for product, key in chance.sample(keys, min(len(keys), chance.randint(5, 40))):
        try:
            urllib.request.urlopen(f"{url}/api/product?product_id={product}&key={key}").read()
        except urllib.error.HTTPError as refused:
            assert refused.code == 403, refused


def sale(url, folder):
    """One more, whose e-mail is a page."""
    before = set(glob.glob(folder + "/data/mail/*.eml"))
    product = {"name": "Star Charts", "content": "# Star Charts\n\nFor clear nights.\n\n- January\n- February\n\n> Look up.",
               "price": 9.99, "expires_days": 365, "max_uses": 100, "description": "A chart for each month."}
    admin(url, "/api/admin/product", product)
    for name, kind, size in [("Star Charts.pdf", "application/pdf", 4_200_000), ("All months.zip", "application/zip", 31_000_000)]:
        put = f"{url}/api/admin/product/file?product_id=3&name={urllib.parse.quote(name)}"
        headers = {"Content-Type": kind, "Authorization": "Bearer " + TOKEN}
        urllib.request.urlopen(urllib.request.Request(put, bytes(size), headers, method="PUT")).read()
    key = order(url, "2001", 3, "buyer@example.com")
    while not (new := set(glob.glob(folder + "/data/mail/*.eml")) - before):
        time.sleep(0.05)
    with open(new.pop(), "rb") as file:
        message = email.message_from_binary_file(file, policy=email.policy.default)
    with open(folder + "/e-mail.html", "w") as page:
        page.write(message.get_body(("html",)).get_content())
    with open(folder + "/key", "w") as file:
        file.write(key)


def stripe(url, kind, thing):
    body = json.dumps({"id": "evt_" + kind, "object": "event", "livemode": True, "type": kind, "data": {"object": thing}})
    now = str(int(time.time()))
    mac = hmac.new(os.environ["STRIPE_SECRET"].encode(), f"{now}.{body}".encode(), hashlib.sha256).hexdigest()
    request = urllib.request.Request(url + "/api/webhook/stripe", body.encode(), {"Stripe-Signature": f"t={now},v1={mac}"})
    urllib.request.urlopen(request).read()


class Browser:
    def __init__(self):
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        for _ in range(100):
            try:
                send(DRIVER + "/status")
                break
            except OSError:
                time.sleep(0.05)
        self.at = DRIVER + "/session/" + send(DRIVER + "/session", wanted)["value"]["sessionId"]

    def tell(self, path, **body):
        return send(self.at + path, body)["value"]

    def size(self, width, height):
        command = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.tell("/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=command)

    def go(self, url):
        self.tell("/url", url=url)

    def run(self, script):
        return self.tell("/execute/sync", script=script, args=[])

    def fill(self, field, text):
        found = self.tell("/element", using="css selector", value="#" + field)
        self.tell(f"/element/{next(iter(found.values()))}/value", text=text)

    def click(self, selector):
        self.run("window.isLeft = false")
        found = self.tell("/element", using="css selector", value=selector)
        self.tell(f"/element/{next(iter(found.values()))}/click")
        while self.run("return window.isLeft === false || document.readyState !== 'complete'"):
            time.sleep(0.02)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(send(self.at + "/screenshot")["value"]))


def look(url, folder, pictures):
    """Pictures of the e-mail, the seller's desk and the buyer's page."""
    browser = Browser()
    browser.size(800, 640)
    browser.go(f"file://{folder}/e-mail.html")
    browser.picture(pictures + "/e-mail.png")
    browser.size(1000, 700)
    browser.go(url + "/desk")
    browser.fill("token", TOKEN)
    browser.click("main button")
    # The figures are counted by now.
    time.sleep(0.5)
    browser.go(url + "/desk")
    browser.picture(pictures + "/desk.png")
    session = {"object": "checkout.session", "id": "cs_1", "payment_status": "paid", "payment_link": "plink_guide",
               "payment_intent": "pi_1", "customer_details": {"email": "first@example.com"}}
    stripe(url, "checkout.session.completed", session)
    stripe(url, "charge.refunded", {"object": "charge", "id": "ch_1", "payment_intent": "pi_1", "refunded": True})
    browser.go(url + "/desk/product?id=1")
    browser.size(1000, 760)
    browser.run("document.getElementById('ref').scrollIntoView({block: 'end'})")
    browser.picture(pictures + "/product.png")
    browser.go(url + "/desk/events")
    browser.size(1000, 560)
    browser.picture(pictures + "/events.png")
    browser.go(url + "/desk/setup")
    browser.size(1000, 620)
    browser.picture(pictures + "/setup.png")
    browser.size(800, 560)
    browser.go(url + "/key")
    browser.fill("key", open(folder + "/key").read())
    browser.click("main button")
    browser.picture(pictures + "/key.png")
    browser.size(390, 600)
    browser.click("main button")
    browser.picture(pictures + "/download.png")
    browser.go(url + "/desk/product?id=3")
    browser.size(1000, 480)
    browser.picture(pictures + "/files.png")
    send(browser.at + "/url", {"url": "about:blank"})
    urllib.request.urlopen(urllib.request.Request(browser.at, method="DELETE")).read()


if __name__ == "__main__":
    {"sell": sell, "sale": sale, "look": look}[sys.argv[1]](*sys.argv[2:])
