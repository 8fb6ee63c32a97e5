"""An update as a trace: its steps, and what the drivers did in them, as spans.

`reading.trace_of` makes it from what lies under the root; `sending` gives it to OpenTelemetry. Ids are made from the
update's identity, so that a trace that is sent again is the same one.
"""
