-- The desk lists archived products. Without this index, that reads the content of every product.
CREATE INDEX delivery_product_archived ON delivery_product (id) WHERE archived = 1;
