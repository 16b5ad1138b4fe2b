"""Sells, validates and fetches with a client that openapi-python-client made of the API's own description.

Arguments: the address of the server. WEBHOOK_SECRET and ADMIN_TOKEN are in the environment.
"""

import os
import sys

from delivery_client import AuthenticatedClient, Client
from delivery_client.api.buyer import fetch_product, validate
from delivery_client.api.platform import order
from delivery_client.api.public import list_products
from delivery_client.api.seller import add_product, issue_key
from delivery_client.models import Error, Fetched, NewKey, NewProduct, Order, Ordered, RefusedKey, Valid

url = sys.argv[1]
anybody = Client(base_url=url)
seller = AuthenticatedClient(base_url=url, token=os.environ["ADMIN_TOKEN"])

added = add_product.sync(client=seller, body=NewProduct(name="Atlas", content="# Atlas", price=19.99, max_uses=1))
product = added.product.id
assert product in [listed.id for listed in list_products.sync(client=anybody).products]

paid = Order(
    secret=os.environ["WEBHOOK_SECRET"], order_id="client-1", product_id=product, customer_email="ada@example.com"
)
sold = order.sync(client=anybody, body=paid)
assert isinstance(sold, Ordered) and sold.success, sold
again = order.sync(client=anybody, body=paid)
assert again.api_key == sold.api_key

buyer = AuthenticatedClient(base_url=url, token=sold.api_key)
valid = validate.sync(client=buyer)
assert isinstance(valid, Valid) and valid.remaining_uses == 1, valid
fetched = fetch_product.sync(client=buyer, product_id=product)
assert isinstance(fetched, Fetched) and fetched.product.content == "# Atlas", fetched

# Every refusal has one type; that of a known key also shows the key.
spent = fetch_product.sync(client=buyer, product_id=product)
assert isinstance(spent, Error) and spent.error.code == "EXCEEDED_USES", spent
refused = validate.sync(client=buyer)
assert isinstance(refused, RefusedKey) and refused.used_count == 1, refused
stranger = AuthenticatedClient(base_url=url, token="nobody's")
wrong = issue_key.sync(client=stranger, body=NewKey(product_id=product, customer_email="ada@example.com"))
assert isinstance(wrong, Error) and wrong.error.code == "UNAUTHORIZED", wrong
print("a generated client sold, validated and fetched")
