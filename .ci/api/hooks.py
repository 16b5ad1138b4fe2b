"""What schemathesis cannot know by itself: how the seller proves who they are, a key that works, and what JSON Schema
cannot say. Found by SCHEMATHESIS_HOOKS."""

import os
import re

import hypothesis
import schemathesis

# Hypothesis 6.170 sometimes fails by itself while it looks for input with a better score (IndexError in `shrinker.py`).
hypothesis.target = lambda *_, **__: None

NAMED = set()
REQUESTS = {}
EITHER = [("max_uses", "add_uses"), ("expires_days", "expires_at")]
TEXTS = ["source", "order_id", "customer_email", "email", "email_prefix", "actor", "platform"]
SETTABLE = "lemonsqueezy"
KEYED = ["/api/validate", "/api/product"]


@schemathesis.auth().apply_to(path_regex="^/api/admin/")
class Seller:
    def get(self, case, context):
        return os.environ["ADMIN_TOKEN"]

    def set(self, case, data, context):
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def map_query(context, query):
    """A key stands somewhere, and every other one works."""
    if context.operation.path in KEYED:
        key = (query or {}).get("key", "")
        if isinstance(key, str) and len(key) % 2 == 0:
            query = {**(query or {}), "key": os.environ["KEY"]}
    return query


@schemathesis.hook
def map_body(context, body):
    """Platforms know the secret, and every other product exists. Prices have four digits, and posts are of our time: a schema
    could say neither to those who compute with doubles, or with time zones."""
    body = integers(body)
    if isinstance(body, dict):
        if isinstance(body.get("secret"), str) and body["secret"]:
            body["secret"] = os.environ["WEBHOOK_SECRET"]
        product = body.get("product_id")
        if type(product) is int and 1 < product < 2**63 and product % 2 == 0:
            body["product_id"] = 1
        if isinstance(body.get("price"), float):
            # What is below zero stays below it.
            body["price"] = round(body["price"], 4) if body["price"] >= 0 else min(round(body["price"], 4), -0.0001)
        # Every other moment from 1970 on, in UTC.
        for name in ["published_at", "expires_at"]:
            moment = body.get(name)
            if isinstance(moment, str) and re.match(r"\d{4}-\d\d-\d\dT", moment) and not "1971" <= moment[:4] <= "9998":
                body[name] = "2026" + moment[4:]
    return body


@schemathesis.hook
def filter_case(context, case):
    """Unknown parameters are ignored, empty ones are missing, lists on the way may be empty, a key must stand in one of three
    places, a page begins where the one before ended, a number may be a text, a limit is set or added to, an event or a product is dismissed, a request is about one
    product, the settings have the secrets of all platforms but one, a person has an address, and a platform's name for a product is no other product's: no schema says so."""
    if case.operation.path.endswith("/key/change") and isinstance(case.body, dict):
        given = {name for name, value in case.body.items() if value not in (None, "")}
        if not given & {*EITHER[0], *EITHER[1]} or any({*either} <= given for either in EITHER):
            return False
    if case.operation.path.endswith("/inbox/dismiss") and isinstance(case.body, dict):
        given = {name for name in ("id", "platform", "product_ref") if case.body.get(name) not in (None, "")}
        if given not in ({"id"}, {"platform", "product_ref"}):
            return False
    if case.operation.path.endswith("/platform/secret") and isinstance(case.body, dict):
        platform = case.body.get("platform")
        if isinstance(platform, str) and platform != SETTABLE and re.fullmatch("[a-z]{0,64}", platform):
            return False
    refs = case.body.get("refs") if isinstance(case.body, dict) else None
    if isinstance(refs, dict):
        names = {(platform, str(name)) for platform, names in refs.items() if isinstance(names, list) for name in names}
        if names & NAMED:
            return False
        NAMED.update(names)
    query = case.query or {}
    if case.operation.path.endswith("/export") and query.get("what") == "person" and not query.get("customer_email"):
        return False
    if "x-schemathesis-unknown-property" in query or any(not value or isinstance(value, (list, dict)) for value in query.values()):
        return False
    request = (case.headers or {}).get("Idempotency-Key")
    if request and REQUESTS.setdefault(request, query.get("product_id")) != query.get("product_id"):
        return False
    if query.get("before") or any(name in query and not isinstance(query[name], str) for name in TEXTS):
        return False
    return case.operation.path not in KEYED or "key" in query


def integers(value):
    """To JSON Schema 1.0 is an integer; here it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: integers(member) for name, member in value.items()}
    return value
