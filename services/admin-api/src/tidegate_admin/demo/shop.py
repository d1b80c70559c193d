"""A small shop: its tables, and the transactions of which its life is made.

Invariant: every function returns the row changes that it made, in the order in which PostgreSQL made them, so that
what is delivered can be compared with what was written, change by change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

SCHEMA = """
CREATE TABLE IF NOT EXISTS customers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reference uuid NOT NULL DEFAULT gen_random_uuid(),
    name text NOT NULL,
    tags text[] NOT NULL DEFAULT '{}',
    is_regular bool NOT NULL DEFAULT false,
    joined_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS products (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    price numeric(10, 2) NOT NULL,
    stock integer NOT NULL,
    attributes jsonb NOT NULL DEFAULT '{}'
);
CREATE TABLE IF NOT EXISTS orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customers,
    status text NOT NULL DEFAULT 'placed',
    total numeric(12, 2) NOT NULL,
    is_gift bool NOT NULL DEFAULT false,
    placed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS order_items (
    order_id bigint NOT NULL REFERENCES orders,
    line integer NOT NULL,
    product_id bigint NOT NULL REFERENCES products,
    quantity integer NOT NULL,
    price numeric(10, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
"""
TABLES = ("customers", "products", "orders", "order_items")

STATUSES = ("placed", "paid", "packed", "shipped", "delivered")
MOST_ORDERS = 300
"""Beyond this the oldest are deleted, so that a demo left running stays small."""
_NAMES = ("Ada", "Bashir", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Ines", "Jonas", "Kofi", "Lena")
_WARES = ("kettle", "lantern", "compass", "notebook", "rope", "anchor", "scarf", "barometer", "mug", "chart")
_TAGS = ("newsletter", "wholesale", "abroad", "returns", "gift card")

_STOCK_CUSTOMER = """
INSERT INTO customers (name) SELECT %s WHERE NOT EXISTS (SELECT FROM customers WHERE name = %s)
"""
_STOCK_PRODUCT = """
INSERT INTO products (name, price, stock) SELECT %s, %s, 500 WHERE NOT EXISTS (SELECT FROM products WHERE name = %s)
"""

Cursor = psycopg.Cursor[Any]
Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    table: str
    operation: str
    key: Key


@dataclass(slots=True)
class Shop:
    """What the writer remembers of the database, so that it never has to search."""

    random: Random
    customers: list[int] = field(default_factory=list)
    products: list[int] = field(default_factory=list)
    orders: dict[int, int] = field(default_factory=dict)
    """Order → number of its lines."""

    def open(self, cursor: Cursor) -> None:
        """Makes and stocks what is not there yet."""
        cursor.execute(SCHEMA)
        for name in _NAMES:
            cursor.execute(_STOCK_CUSTOMER, [name, name])
        for ware in _WARES:
            cursor.execute(_STOCK_PRODUCT, [ware, self.random.randint(100, 9_999) / 100, ware])
        self.customers = [row[0] for row in cursor.execute("SELECT id FROM customers ORDER BY id")]
        self.products = [row[0] for row in cursor.execute("SELECT id FROM products ORDER BY id")]
        rows = cursor.execute("SELECT order_id, count(*) FROM order_items GROUP BY order_id ORDER BY order_id")
        self.orders = {row[0]: row[1] for row in rows}

    def choose(self) -> Callable[[Cursor], list[Change]]:
        if len(self.orders) < 10:
            return self.place_order
        if len(self.orders) > MOST_ORDERS:
            return self.forget_order
        actions = (self.place_order, self.advance_orders, self.reprice, self.tag_customer, self.join, self.forget_order)
        (action,) = self.random.choices(actions, (30, 40, 10, 12, 4, 4))
        return action

    def place_order(self, cursor: Cursor) -> list[Change]:
        """One order, its lines, and the stock they take: several tables in one transaction."""
        random = self.random
        wanted = random.sample(self.products, random.randint(1, 4))
        total = random.randint(500, 20_000) / 100
        order = _one(
            cursor,
            "INSERT INTO orders (customer_id, total, is_gift) VALUES (%s, %s, %s) RETURNING id",
            [random.choice(self.customers), total, random.random() < 0.1],
        )
        changes = [Change("orders", "INSERT", (order,))]
        for line, product in enumerate(wanted, 1):
            cursor.execute(
                "INSERT INTO order_items SELECT %s, %s, id, %s, price FROM products WHERE id = %s",
                [order, line, random.randint(1, 5), product],
            )
            cursor.execute("UPDATE products SET stock = stock - 1 WHERE id = %s", [product])
            changes += [Change("order_items", "INSERT", (order, line)), Change("products", "UPDATE", (product,))]
        self.orders[order] = len(wanted)
        return changes

    def advance_orders(self, cursor: Cursor) -> list[Change]:
        """One statement for a few rows."""
        some = self.random.sample(list(self.orders), min(len(self.orders), self.random.randint(1, 3)))
        rows = cursor.execute(
            "UPDATE orders SET status = %s WHERE id = ANY(%s) RETURNING id", [self.random.choice(STATUSES[1:]), some]
        )
        return [Change("orders", "UPDATE", (row[0],)) for row in rows]

    def reprice(self, cursor: Cursor) -> list[Change]:
        product = self.random.choice(self.products)
        attributes = Jsonb({"weight_g": self.random.randint(50, 3000), "colours": self.random.sample(_TAGS, 2)})
        cursor.execute(
            "UPDATE products SET price = %s, attributes = %s, stock = 500 WHERE id = %s",
            [self.random.randint(100, 9_999) / 100, attributes, product],
        )
        return [Change("products", "UPDATE", (product,))]

    def tag_customer(self, cursor: Cursor) -> list[Change]:
        customer = self.random.choice(self.customers)
        tags = self.random.sample(_TAGS, self.random.randint(0, 3))
        cursor.execute("UPDATE customers SET tags = %s, is_regular = NOT is_regular WHERE id = %s", [tags, customer])
        return [Change("customers", "UPDATE", (customer,))]

    def join(self, cursor: Cursor) -> list[Change]:
        name = f"{self.random.choice(_NAMES)} {len(self.customers)}"
        customer = _one(cursor, "INSERT INTO customers (name) VALUES (%s) RETURNING id", [name])
        self.customers.append(customer)
        return [Change("customers", "INSERT", (customer,))]

    def forget_order(self, cursor: Cursor) -> list[Change]:
        order = next(iter(self.orders))
        rows = cursor.execute("DELETE FROM order_items WHERE order_id = %s RETURNING line", [order])
        changes = [Change("order_items", "DELETE", (order, row[0])) for row in rows]
        cursor.execute("DELETE FROM orders WHERE id = %s", [order])
        del self.orders[order]
        return [*changes, Change("orders", "DELETE", (order,))]


def _one(cursor: Cursor, query: str, values: list[object]) -> int:
    row = cursor.execute(query, values).fetchone()
    assert row is not None
    return int(row[0])
