"""The custom ops, and regions as calls in code that Inductor generates."""
